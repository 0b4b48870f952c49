"""Intake reads all partitions at once, and each takes what is its own, at its own pace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from trio.testing import trio_test

from shardwheel.job import Changes
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.shard.intake import Intake
from tests.unit.shard.entries import NOON_MS, every, waiting

HOUR_MS = 3_600_000
SEVEN, EIGHT = bytes([7] * 16), bytes([8] * 16)
STAND = Stand(NOON_MS, 100)


class Feed:
    """Loads nothing, under the snapshots that are laid out; what changed is what a test says."""

    def __init__(self, *snapshots: str) -> None:
        self._loads = list(snapshots)
        self.found = Changes([], [], "900:900:", 900)
        self.asked: list[tuple[list[int], str]] = []
        self.meanwhile: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    @asynccontextmanager
    async def load(self, partitions: Sequence[int]) -> AsyncIterator[AsyncIterator[Changes]]:
        snapshot = self._loads.pop(0)

        async def batches() -> AsyncIterator[Changes]:
            yield Changes([], [], snapshot, int(snapshot.partition(":")[0]))

        yield batches()

    async def changes(self, partitions: Sequence[int], since: str) -> Changes:
        self.asked.append((list(partitions), since))
        await self.meanwhile()
        return self.found


async def apart(intake: Intake) -> tuple[dict[int, Holding], dict[int, Holding]]:
    """Partitions 7 and 8, each loaded on its own."""
    return await intake.load({7: STAND}), await intake.load({8: STAND})


def changed(feed: Feed) -> None:
    """A job and a waiting execution in each of the two."""
    jobs = [every(HOUR_MS, job_id=job_id, partition=p) for job_id, p in ((SEVEN, 7), (EIGHT, 8))]
    rows = [waiting(NOON_MS, execution_id=bytes([p, *[0] * 15]), partition=p) for p in (7, 8)]
    feed.found = feed.found._replace(jobs=jobs, waiting=rows)


@trio_test
async def test_each_takes_what_is_its_own_of_one_read_since_the_oldest_snapshot() -> None:
    feed = Feed("600:700:", "500:700:")
    intake = Intake(feed, 2)
    seven, eight = await apart(intake)
    changed(feed)
    assert await intake.run_once(seven, eight) == 4
    assert feed.asked == [([7, 8], "500:700:")]
    assert [(len(seven[7]), seven[7].count(7)), (len(eight[8]), eight[8].count(8))] == [(2, 2), (2, 2)]
    assert (intake.horizon_xid, intake.horizon_of(7), intake.horizon_of(8)) == (900, 900, 900)


@trio_test
async def test_what_was_let_go_or_loaded_anew_during_the_read_takes_nothing_and_moves_no_horizon() -> None:
    feed = Feed("600:700:", "500:700:", "800:800:")
    intake = Intake(feed, 2)
    seven, eight = await apart(intake)
    before, gone = seven[7], eight[8]
    changed(feed)

    async def happen() -> None:
        eight.clear()
        seven.update(await intake.load({7: STAND}))

    feed.meanwhile = happen
    await intake.run_once(seven, eight)
    assert (len(before), len(gone), len(seven[7])) == (0, 0, 0)
    assert (intake.horizon_of(7), intake.horizon_of(8)) == (800, 500)


@trio_test
async def test_with_nothing_held_nothing_is_read() -> None:
    feed = Feed()
    assert await Intake(feed, 2).run_once({}, {}) == 0
    assert feed.asked == []
