"""A shadow follows its owner's (T, X), and wakes as the holding that a load would have made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import trio
from trio.testing import MockClock, trio_test, wait_all_tasks_blocked

from shardwheel.job import Changes, JobEntry
from shardwheel.ports import Identity, Message, PartitionState
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.shard.intake import Intake
from shardwheel.shard.mirror import TAKEN_WITHIN_S, Mirror, Shadow, Wants
from tests.unit.shard.entries import NOON_MS, at, every, fires, once, waiting

SECOND_MS = 1_000


def shadow_of(*jobs: JobEntry, stand: Stand) -> Shadow:
    shadow = Shadow(2, stand.fired_through_ms)
    shadow.take_jobs(jobs, at(stand))
    return shadow


def fired(shadow: Shadow, now_ms: int) -> list[int]:
    out: list[Message] = []
    backlog: list[tuple[int, Message]] = []
    shadow.due(now_ms, out, backlog)
    return [fire.scheduled_ms for fire in fires(out)]


def seconds(*numbers: int) -> list[int]:
    return [NOON_MS + SECOND_MS * number for number in numbers]


def test_what_the_owner_has_fired_is_passed_over() -> None:
    stand = Stand(NOON_MS, 200)
    shadow = shadow_of(every(SECOND_MS, schedule_xid=100), stand=stand)
    shadow.follow(Stand(NOON_MS + 3_500, 300))
    shadow.wake(Stand(NOON_MS + 4_000, 300))
    assert fired(shadow, NOON_MS + 6_000) == seconds(5, 6)


def test_a_schedule_that_the_owner_may_not_have_seen_is_fired_from_its_beginning() -> None:
    shadow = shadow_of(every(SECOND_MS, schedule_xid=250), stand=Stand(NOON_MS, 200))
    shadow.follow(Stand(NOON_MS + 1_500, 200))
    shadow.follow(Stand(NOON_MS + 2_500, 250))
    shadow.wake(Stand(NOON_MS + 2_500, 250))
    assert fired(shadow, NOON_MS + 3_000) == seconds(0, 1, 2, 3)


def test_once_the_owner_has_surely_seen_it_it_goes_on_after_t() -> None:
    shadow = shadow_of(every(SECOND_MS, schedule_xid=250), stand=Stand(NOON_MS, 200))
    shadow.follow(Stand(NOON_MS + 1_500, 200))
    shadow.follow(Stand(NOON_MS + 2_500, 251))
    shadow.wake(Stand(NOON_MS + 2_500, 251))
    assert fired(shadow, NOON_MS + 3_000) == seconds(3)


def test_a_change_that_comes_later_counts_from_the_owners_stand_not_from_our_feeds() -> None:
    shadow = Shadow(2, NOON_MS)
    shadow.follow(Stand(NOON_MS + 2_500, 200))
    # Our feed's horizon is beyond it; the owner's stored X is not.
    shadow.take_jobs([every(SECOND_MS, schedule_xid=250)], at(Stand(NOON_MS + 2_500, 300)))
    shadow.wake(Stand(NOON_MS + 2_500, 200))
    assert fired(shadow, NOON_MS + 3_000) == seconds(0, 1, 2, 3)


def test_due_waiting_executions_are_kept_until_the_owner_has_surely_published_them() -> None:
    shadow = Shadow(2, NOON_MS)
    shadow.take_waiting([waiting(NOON_MS + 500, changed_xid=250)])
    shadow.follow(Stand(NOON_MS + 1_000, 250))
    assert len(shadow) == 1
    shadow.follow(Stand(NOON_MS + 1_000, 251))
    assert len(shadow) == 0


def test_one_that_is_kept_is_published_after_a_takeover() -> None:
    shadow = Shadow(2, NOON_MS)
    shadow.take_waiting([waiting(NOON_MS + 500, changed_xid=250)])
    shadow.wake(Stand(NOON_MS + 1_000, 250))
    assert fired(shadow, NOON_MS + 1_000) == [NOON_MS]


def test_what_is_over_leaves() -> None:
    shadow = shadow_of(once(NOON_MS + 500, schedule_xid=100), stand=Stand(NOON_MS, 200))
    shadow.follow(Stand(NOON_MS + 1_000, 200))
    assert len(shadow) == 0


def test_jitter_is_passed_over_by_fire_time() -> None:
    """Whatever the jitter: each time is either passed over by the shadow, or fired after the takeover."""
    job = every(SECOND_MS, schedule_xid=100, jitter_ms=900)
    reference = shadow_of(job, stand=Stand(NOON_MS - 1, 200))
    shadow = shadow_of(job, stand=Stand(NOON_MS - 1, 200))
    before = fired(reference, NOON_MS + 2_300)
    shadow.wake(Stand(NOON_MS + 2_300, 200))
    assert fired(shadow, NOON_MS + 6_000) == fired(reference, NOON_MS + 6_000)
    assert before


class Feed:
    """A feed whose loads wait until a test lets them go; and the store that knows the partitions."""

    def __init__(self) -> None:
        self.open = trio.Event()

    @asynccontextmanager
    async def load(self, partitions: Sequence[int]) -> AsyncIterator[AsyncIterator[Changes]]:
        await self.open.wait()

        async def batches() -> AsyncIterator[Changes]:
            yield Changes([], [], "500:500:", 500)

        yield batches()

    async def changes(self, partitions: Sequence[int], since: str) -> Changes:
        return Changes([], [], since, 500)

    async def partitions(self, partitions: Sequence[int]) -> list[PartitionState]:
        return [state_of(partition) for partition in partitions]


def state_of(partition: int) -> PartitionState:
    fields: dict[str, object] = dict.fromkeys(PartitionState._fields, 0)
    fields |= {"partition": partition, "fired_through_ms": NOON_MS, "identity": Identity(1, 1)}
    return PartitionState(**fields)  # type: ignore[arg-type]


@trio_test
async def test_whoever_promotes_waits_for_a_load_of_the_same_partitions_and_of_no_others() -> None:
    feed = Feed()
    mirror = Mirror(cast(Any, feed), Intake(feed, 2), 2)
    feed.open.set()
    mirror.want(Wants({7: "a"}))
    await mirror.run_once()
    feed.open = trio.Event()
    mirror.want(Wants({8: "a"}, claimed={7}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.run_once)
        await wait_all_tasks_blocked()
        assert mirror.loading == {8}
        assert set(await mirror.promote([state_of(7)])) == {7}
        promoted: list[dict[int, Holding]] = []

        async def promote_other() -> None:
            promoted.append(await mirror.promote([state_of(8)]))

        nursery.start_soon(promote_other)
        await wait_all_tasks_blocked()
        assert promoted == []
        feed.open.set()
    assert [set(holdings) for holdings in promoted] == [{8}]


@asynccontextmanager
async def loaded(*partitions: int) -> AsyncIterator[Mirror]:
    """A mirror with these partitions in one shadow."""
    feed = Feed()
    feed.open.set()
    mirror = Mirror(cast(Any, feed), Intake(feed, 2), 2)
    mirror.want(Wants(dict.fromkeys(partitions, "a")))
    assert await mirror.run_once()
    assert len(set(mirror.shadows.values())) == 1
    yield mirror


@trio_test
async def test_what_is_to_move_out_of_a_shadow_is_loaded_on_its_own() -> None:
    async with loaded(7, 8, 9) as mirror:
        wanted = {7: "a", 8: "a", 9: "a"}
        assert mirror.want(Wants(wanted, awaited=[8], moving=True))
        assert mirror.groups([8]) == []
        assert await mirror.run_once()
        assert mirror.groups([8]) == [[8]]
        assert mirror.shadows[7] is mirror.shadows[9] is not mirror.shadows[8]
        # A shadow that moves as a whole stays as it is.
        mirror.want(Wants(wanted, awaited=[7, 8, 9], moving=True))
        assert mirror.groups([7, 8, 9]) == [[7, 9], [8]]


@trio_test
async def test_while_something_moves_only_what_moves_here_is_loaded() -> None:
    async with loaded(7) as mirror:
        wanted = {7: "a", 8: "a", 9: "b"}
        assert not mirror.want(Wants(wanted, moving=True))
        assert not await mirror.run_once()
        assert mirror.want(Wants(wanted, awaited=[9], moving=True))
        assert await mirror.run_once()
        assert set(mirror.shadows) == {7, 9}
        assert mirror.want(Wants(wanted))
        assert await mirror.run_once()
        assert set(mirror.shadows) == {7, 8, 9}


async def _the_next_group_waits(clock: MockClock) -> None:
    async with loaded(7) as mirror:
        wanted = {7: "a", 8: "a", 9: "a"}
        assert not mirror.want(Wants(wanted, awaited=[7, 8, 9], moving=True)), "7 is about to be handed over"
        taken = Wants({8: "a", 9: "a"}, claimed=[7], awaited=[8, 9], moving=True)
        assert mirror.want(taken)
        await mirror.promote([state_of(7)])
        assert await mirror.run_once()
        assert set(mirror.shadows) == {8, 9}
        later = Wants({8: "a", 9: "a", 10: "a"}, awaited=[8, 9, 10], moving=True)
        assert not mirror.want(later)
        clock.jump(TAKEN_WITHIN_S)
        assert mirror.want(later), "whoever does not hand over holds nothing up"


def test_the_next_group_is_loaded_once_the_one_before_was_taken_or_is_overdue() -> None:
    clock = MockClock(autojump_threshold=0)
    trio.run(_the_next_group_waits, clock, clock=clock)
