"""The crew: attempts overlap when their handlers wait, and leave nothing behind for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest
import trio
from trio.testing import MockClock, trio_test, wait_all_tasks_blocked

from shardwheel.execution import Claimed
from shardwheel.handler import Registry
from shardwheel.wire import Outcome
from shardwheel.workers import crew as crew_module
from shardwheel.workers.crew import Crew
from shardwheel.workers.run import End, Running
from tests.unit.workers.rig import claimed, workshop

Function = Callable[[Any, Any], Any]


class Rig:
    """A crew whose handlers are given by the test, and the ends that it was told of."""

    def __init__(self, nursery: trio.Nursery, **handlers: Function) -> None:
        registry = Registry()
        for task, function in handlers.items():
            registry.add(task, function, "short", None)
        self.ends: dict[int, End] = {}
        self.first_end = trio.Event()
        self.nursery = nursery
        self._crew = Crew(nursery, registry, workshop(), self._ended)

    def take_on(self, *attempts: Claimed) -> list[Running]:
        clock = trio.lowlevel.current_clock().current_time
        running = [Running(one, 1_000, trio.current_time(), clock) for one in attempts]
        self._crew.take_on(running)
        return running

    def _ended(self, running: Running, end: End) -> None:
        number = int.from_bytes(running.claimed.execution_id, "big")
        assert number not in self.ends
        self.ends[number] = end
        self.first_end.set()

    @property
    def outcomes(self) -> dict[int, Outcome]:
        return {number: end.outcome for number, end in self.ends.items()}

    @property
    def runners(self) -> int:
        return len(self.nursery.child_tasks)


def with_crew(play: Callable[[Rig], Awaitable[None]], **handlers: Function) -> None:
    """Play a scene under a clock that jumps over what nobody does anything in."""

    played = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await play(Rig(nursery, **handlers))
            played.append(play)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert played, "a cancellation of the crew has ended the scene"


async def nothing(ctx: Any, params: Any) -> None:
    pass


async def sleep(ctx: Any, params: Any) -> None:
    await trio.sleep(params["number"])


def test_handlers_that_never_wait_share_two_runners() -> None:
    async def play(rig: Rig) -> None:
        rig.take_on(*(claimed(number, "nothing") for number in range(300)))
        await wait_all_tasks_blocked()
        assert list(rig.ends) == list(range(300))
        assert set(rig.outcomes.values()) == {Outcome.SUCCEEDED}
        assert rig.runners <= 2

    with_crew(play, nothing=nothing)


def test_handlers_that_wait_overlap_and_their_runners_are_kept() -> None:
    async def play(rig: Rig) -> None:
        for _ in range(2):
            rig.ends.clear()
            began = trio.current_time()
            rig.take_on(*(claimed(number, "sleep") for number in range(50, 0, -1)))
            await trio.sleep(50.5)
            assert list(rig.ends) == list(range(1, 51))
            assert trio.current_time() - began < 51
            assert 50 <= rig.runners <= 51

    with_crew(play, sleep=sleep)


def test_more_runners_than_may_rest_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "MOST_RESTING", 3)

    async def play(rig: Rig) -> None:
        for _ in range(2):
            rig.ends.clear()
            rig.take_on(*(claimed(number, "sleep") for number in range(1, 11)))
            await trio.sleep(11)
            assert len(rig.ends) == 10
            assert rig.runners == 3

    with_crew(play, sleep=sleep)


def test_a_time_out_a_stop_and_a_release_end_only_their_own_attempt() -> None:
    async def play(rig: Rig) -> None:
        _, stopped, released, _ = rig.take_on(
            claimed(60, "sleep", timeout_ms=2_000),
            claimed(61, "sleep"),
            claimed(62, "sleep", timeout_ms=120_000),
            claimed(10, "sleep"),
        )
        await trio.sleep(1)
        stopped.stop()
        released.release()
        rig.take_on(claimed(3, "sleep"), claimed(4, "sleep"))
        await trio.sleep(20)
        assert rig.outcomes == {
            60: Outcome.TIMED_OUT,
            61: Outcome.CANCELLED,
            62: Outcome.RELEASED,
            3: Outcome.SUCCEEDED,
            4: Outcome.SUCCEEDED,
            10: Outcome.SUCCEEDED,
        }
        assert rig.ends[60].message == "it took longer than 2 s"
        # Those that were cut off left runners behind: whoever comes next has its whole time.
        rig.ends.clear()
        rig.take_on(*(claimed(number, "sleep", timeout_ms=40_000) for number in range(30, 36)))
        await trio.sleep(50)
        assert set(rig.outcomes.values()) == {Outcome.SUCCEEDED}

    with_crew(play, sleep=sleep)


def test_an_old_deadline_does_not_touch_a_resting_runner_or_its_next_attempt() -> None:
    async def play(rig: Rig) -> None:
        rig.take_on(claimed(1, "sleep", timeout_ms=2_000))
        await trio.sleep(10)
        rig.take_on(claimed(5, "sleep"))
        await trio.sleep(10)
        assert rig.outcomes == {1: Outcome.SUCCEEDED, 5: Outcome.SUCCEEDED}

    with_crew(play, sleep=sleep)


def test_what_was_stopped_before_it_began_does_not_begin() -> None:
    began = []

    async def note(ctx: Any, params: Any) -> None:
        began.append(params["number"])

    async def play(rig: Rig) -> None:
        _, second = rig.take_on(claimed(1, "note"), claimed(2, "note"))
        second.release()
        await wait_all_tasks_blocked()
        assert rig.outcomes == {1: Outcome.SUCCEEDED, 2: Outcome.RELEASED}
        assert began == [1]

    with_crew(play, note=note)


def test_a_context_variable_is_not_seen_by_the_next_attempt() -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen = []

    async def remember(ctx: Any, params: Any) -> None:
        seen.append(tenant.get())
        tenant.set(f"tenant {params['number']}")

    async def play(rig: Rig) -> None:
        rig.take_on(*(claimed(number, "remember") for number in range(5)))
        await wait_all_tasks_blocked()
        assert seen == ["nobody"] * 5

    with_crew(play, remember=remember)


def test_what_a_handler_raises_while_it_is_cut_off_ends_nobody_else() -> None:
    """A child task's clean-up fails: trio raises that beside the cancellation."""

    async def fails_to_clean_up() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("the clean-up failed")

    async def messy(ctx: Any, params: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_to_clean_up)
            nursery.start_soon(trio.sleep_forever)

    async def play(rig: Rig) -> None:
        rig.take_on(claimed(1, "messy", timeout_ms=1_000), claimed(2, "sleep"))
        await trio.sleep(5)
        assert rig.outcomes == {1: Outcome.TIMED_OUT, 2: Outcome.SUCCEEDED}

    with_crew(play, messy=messy, sleep=sleep)


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        BaseExceptionGroup("both", [asyncio.CancelledError(), ValueError()]),
    ],
)
def test_nothing_that_a_handler_raises_ends_anybody_else(error: BaseException) -> None:
    async def waits(ctx: Any, params: Any) -> None:
        await trio.sleep(1)
        raise error

    async def while_cut_off(ctx: Any, params: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    async def play(rig: Rig) -> None:
        tasks = {1: "waits", 2: "while_cut_off", 3: "nothing"}
        rig.take_on(*(claimed(number, task, timeout_ms=9_000) for number, task in tasks.items()))
        await trio.sleep(20)
        assert rig.outcomes == {1: Outcome.FAILED, 2: Outcome.TIMED_OUT, 3: Outcome.SUCCEEDED}
        assert rig.ends[1].error_class == type(error).__name__

    with_crew(play, waits=waits, while_cut_off=while_cut_off, nothing=nothing)


def test_a_cancellation_that_a_handler_kept_is_an_error_like_others() -> None:
    async def keeps(ctx: Any, params: Any) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                kept = error
        raise kept

    async def play(rig: Rig) -> None:
        rig.take_on(claimed(1, "keeps"), claimed(2, "nothing"))
        await wait_all_tasks_blocked()
        assert rig.ends[1].error_class == "Cancelled"
        assert rig.outcomes == {1: Outcome.FAILED, 2: Outcome.SUCCEEDED}

    with_crew(play, keeps=keeps, nothing=nothing)


def test_a_crew_that_is_let_go_ends_whatever_its_handlers_raise_then() -> None:
    async def stubborn(ctx: Any, params: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    async def play(rig: Rig) -> None:
        rig.take_on(claimed(1, "stubborn"))
        await wait_all_tasks_blocked()

    with_crew(play, stubborn=stubborn)


@trio_test
async def test_a_plain_handler_in_its_thread_can_ask_how_long_it_has() -> None:
    left = []

    def plain(ctx: Any, params: Any) -> None:
        left.append(ctx.seconds_left)

    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, plain=plain)
        rig.take_on(claimed(1, "plain", timeout_ms=3_600_000))
        await rig.first_end.wait()
        nursery.cancel_scope.cancel()
    assert rig.outcomes == {1: Outcome.SUCCEEDED}
    assert 3_000 < left[0] <= 3_600
