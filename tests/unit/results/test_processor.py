"""The result processor: one result that the store refuses ends by itself, and those beside it are settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import trio
from trio.testing import MockClock

from shardwheel.errors import RefusedError, UnavailableError
from shardwheel.execution import Resolved, RunEnd, Settled
from shardwheel.limits import Tally, TaskName
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.metrics import exposition
from shardwheel.ports import Message
from shardwheel.results.lag import OPEN_ABOVE, LagBreaker
from shardwheel.results.processor import Processor
from shardwheel.service import Service
from shardwheel.topics import RESULTS, result_topics
from shardwheel.wire import FORMAT_VERSION, Outcome, Result, encode_result

LIMIT_S = 60.0


class RefusingStore:
    """Takes a batch as a whole or not at all, as a transaction does."""

    def __init__(self, refuses: Callable[[Result], bool]) -> None:
        self._refuses = refuses
        self.settled: list[Result] = []
        self.put_off: list[bool] = []

    async def settle(self, results: Sequence[Result], *, put_off: bool = False) -> Settled:
        await trio.lowlevel.checkpoint()
        self.put_off.append(put_off)
        if any(map(self._refuses, results)):
            raise RefusedError("InvalidTextRepresentation: invalid input syntax for type json")
        self.settled += results
        return Settled({"succeeded": len(results)}, 0, {})

    async def tally(self, counted: Mapping[TaskName, Tally], lane: int) -> None:
        raise AssertionError("nothing was counted")


def result(number: int, output: bytes = b"1") -> Result:
    ids = number.to_bytes(16, "big"), bytes(16)
    plain = Result(FORMAT_VERSION, *ids, 0, 1, bytes(16), Outcome.SUCCEEDED, 1, 2, "w")
    return msgspec.structs.replace(plain, message="words", traceback="more words", output=output)


def settled(store: RefusingStore, *results: Result, breaker: LagBreaker | None = None) -> dict[int, Result]:
    """What the store took of these, once the processor has committed them all."""
    kafka = MemoryKafka()
    kafka.create(result_topics(1))

    async def play() -> None:
        service, bus = Service("results"), MemoryBus(kafka)
        messages = [Message(RESULTS, 0, one.execution_id, encode_result(one)) for one in results]
        producer = bus.producer()
        await producer.wait_acknowledged(producer.publish(messages))
        processor = Processor(service, store, bus, breaker=breaker)
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(processor._run)
                await trio.sleep(5)
                service.stop()

    trio.run(play, clock=MockClock(autojump_threshold=0))
    return {int.from_bytes(one.execution_id, "big"): one for one in store.settled}


def test_a_refused_result_ends_as_fatal_without_its_words_and_the_others_as_they_are() -> None:
    store = RefusingStore(lambda one: one.output == b"{")
    found = settled(store, result(1), result(2, b"{"), result(3))
    assert found[1] == result(1)
    assert found[3] == result(3)
    refused = found[2]
    assert (refused.outcome, refused.output, refused.traceback) == (Outcome.FATAL, b"", "")
    assert refused.message.startswith("its result could not be stored: InvalidTextRepresentation")


def test_what_is_refused_even_without_its_words_is_passed_over() -> None:
    store = RefusingStore(lambda one: one.execution_id[-1] == 2)
    assert list(settled(store, result(1), result(2), result(3))) == [1, 3]


def test_while_the_lag_breaker_is_open_dags_are_put_off() -> None:
    breaker = LagBreaker()
    store = RefusingStore(lambda one: False)
    settled(store, result(1), breaker=breaker)
    breaker.note(OPEN_ABOVE + 1)
    settled(store, result(2), breaker=breaker)
    breaker.note(0)
    settled(store, result(3), breaker=breaker)
    assert store.put_off == [False, True, False]


class SlowStore(RefusingStore):
    """One transaction has the time for so many results, and for no more."""

    def __init__(self, most: int) -> None:
        super().__init__(lambda one: False)
        self._most = most

    async def settle(self, results: Sequence[Result], *, put_off: bool = False) -> Settled:
        if len(results) > self._most:
            raise UnavailableError("PostgreSQL did not answer within 10 s")
        return await super().settle(results, put_off=put_off)


def test_what_one_transaction_has_no_time_for_is_settled_by_halves() -> None:
    """As when hundreds of DAG runs fan out in one batch: said again as it is, it would never be settled."""
    store = SlowStore(most=3)
    assert sorted(settled(store, *map(result, range(50)))) == list(range(50))
    assert len(store.settled) == 50


class HeavyStore(RefusingStore):
    """What follows from one result does not fit into a transaction."""

    async def settle(self, results: Sequence[Result], *, put_off: bool = False) -> Settled:
        if not put_off and any(one.execution_id[-1] == 2 for one in results):
            raise UnavailableError("PostgreSQL broke off: canceling statement due to statement timeout")
        return await super().settle(results, put_off=put_off)


def test_a_run_that_is_too_much_for_a_transaction_is_told_later_and_holds_up_no_result() -> None:
    store = HeavyStore(lambda one: False)
    assert sorted(settled(store, *map(result, range(8)))) == list(range(8))
    assert store.put_off.count(True) == 1


class EndingStore(RefusingStore):
    """Each batch ends three runs."""

    async def settle(self, results: Sequence[Result], *, put_off: bool = False) -> Settled:
        settled = await super().settle(results, put_off=put_off)
        ends = (RunEnd("succeeded", True), RunEnd("succeeded", False), RunEnd("partial", None))
        return settled._replace(resolved=Resolved(ends=ends))


def figures() -> list[float]:
    """Of /metrics: runs that succeeded, that were partial, and that kept their sla, or did not."""
    values = dict(line.rsplit(" ", 1) for line in exposition().decode().splitlines() if line[0] != "#")
    names = [f'dag_runs_total{{outcome="{word}"}}' for word in ("succeeded", "partial")]
    names += [f'dag_sla_total{{outcome="{word}"}}' for word in ("met", "missed")]
    return [float(values.get(f"shardwheel_{name}", 0)) for name in names]


def test_runs_that_end_are_in_the_metrics_with_whether_they_kept_their_sla() -> None:
    before = figures()
    settled(EndingStore(lambda one: False), result(1))
    assert [now - then for now, then in zip(figures(), before, strict=True)] == [2, 1, 1, 1]
