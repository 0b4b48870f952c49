"""The lag breaker: its two marks, what it shows, and what a broker that is away changes (nothing)."""

from __future__ import annotations

import msgspec
import pytest
from trio.testing import MockClock, trio_test

from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.metrics import RESULTS_BREAKER, RESULTS_LAG
from shardwheel.ports import Message
from shardwheel.results.lag import CLOSE_BELOW, OPEN_ABOVE, LagBreaker, LagWatch
from shardwheel.service import Service
from shardwheel.topics import RESULTS, RESULTS_GROUP, result_topics


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@pytest.mark.parametrize(
    ("lags", "states"),
    [
        ([0, OPEN_ABOVE], [False, False]),
        ([OPEN_ABOVE + 1], [True]),
        ([OPEN_ABOVE + 1, CLOSE_BELOW, CLOSE_BELOW - 1], [True, True, False]),
        ([OPEN_ABOVE + 1, 0, OPEN_ABOVE, OPEN_ABOVE + 1], [True, False, False, True]),
    ],
)
def test_it_opens_above_one_mark_and_closes_below_another(lags: list[int], states: list[bool]) -> None:
    breaker = LagBreaker()
    found = []
    for lag in lags:
        was_open = breaker.is_open
        assert breaker.note(lag) == (was_open != breaker.is_open)
        found.append(breaker.is_open)
    assert found == states


class Scene:
    def __init__(self) -> None:
        self.kafka = MemoryKafka()
        self.bus = MemoryBus(self.kafka)
        self.service = Service("results")
        self.watch = LagWatch(self.service, self.bus, LagBreaker())

    async def report(self, results: int) -> None:
        producer = self.bus.producer()
        ticket = producer.publish([Message(RESULTS, n % 2, b"", b"") for n in range(results)])
        await producer.wait_acknowledged(ticket)
        await producer.close()

    async def settle_all(self) -> None:
        consumer = self.bus.consumer(RESULTS_GROUP, [RESULTS])
        while records := await consumer.take(5_000, 0.1):
            await consumer.commit(records)
        await consumer.close()

    async def health(self) -> tuple[int, str]:
        answer = await self.service.health.route(b"")
        return answer.status, msgspec.json.decode(answer.body)["parts"]["lag"]

    def shown(self) -> tuple[float, float]:
        return RESULTS_LAG._value.get(), RESULTS_BREAKER._value.get()


@trio_test
async def test_it_measures_all_that_is_not_settled_and_shows_it(autojump_clock: MockClock) -> None:
    s = Scene()
    await s.bus.ensure_topics(result_topics(2))
    await s.watch.run_once()
    assert (s.shown(), await s.health()) == ((0, 0), (200, "ok"))
    await s.report(OPEN_ABOVE + 1)
    await s.watch.run_once()
    assert s.watch.breaker.is_open
    assert s.shown() == (OPEN_ABOVE + 1, 1)
    # Late is not unwell: whoever supervises must not end a process that catches up.
    assert await s.health() == (200, "breaker open: 10001 results behind, DAGs wait")
    await s.settle_all()
    await s.watch.run_once()
    assert (s.shown(), await s.health()) == ((0, 0), (200, "ok"))


@trio_test
async def test_a_broker_that_does_not_answer_leaves_it_as_it_was(autojump_clock: MockClock) -> None:
    s = Scene()
    await s.bus.ensure_topics(result_topics(2))
    await s.report(OPEN_ABOVE + 1)
    await s.watch.run_once()
    s.kafka.away = True
    await s.watch.run_once()
    assert s.watch.breaker.is_open
    assert (await s.health())[0] == 503
    s.kafka.away = False
    await s.settle_all()
    await s.watch.run_once()
    assert not s.watch.breaker.is_open
