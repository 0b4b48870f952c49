"""Take, work, commit: offsets only after the work and in order; overlapping only where there is a backlog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
import trio
from trio.testing import MockClock, trio_test, wait_all_tasks_blocked

from shardwheel.batches import Batches
from shardwheel.errors import UnavailableError
from shardwheel.ports import Record, TopicPartition

PLACE = TopicPartition("jobs", 0)


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


class ScriptedConsumer:
    """A topic partition of so many records; notes what is done, and may refuse commits."""

    def __init__(self, records: int, notes: list[str]) -> None:
        self._left = [Record(*PLACE, offset, b"", b"") for offset in range(records)]
        self._notes = notes
        self.refuses = self.paused = False
        self.gaps: frozenset[TopicPartition] = frozenset()

    async def take(self, most: int, wait_s: float) -> list[Record]:
        await trio.lowlevel.checkpoint()
        if self.paused:
            self._notes.append("stays")
            return []
        taken, self._left = self._left[:most], self._left[most:]
        self._notes.append(f"take {len(taken)}")
        return taken

    def commit_soon(self, records: Iterable[Record]) -> None:
        if offsets := [record.offset for record in records]:
            self._notes.append(f"commit {max(offsets) + 1}")

    async def commit(self, records: Iterable[Record]) -> None:
        await trio.lowlevel.checkpoint()
        self.commit_soon(records)
        if self.refuses:
            raise UnavailableError("no answer")

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    async def close(self) -> None:
        self._notes.append("close")


class Desk:
    """Work that takes until the test says so."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._send, self._receive = trio.open_memory_channel[None](10)

    async def work(self, records: Sequence[Record]) -> None:
        self._notes.append(f"work from {records[0].offset}")
        await self._receive.receive()
        self._notes.append("done")

    def let_one_end(self) -> None:
        self._send.send_nowait(None)


@trio_test
async def test_a_backlog_is_taken_ahead_and_committed_behind() -> None:
    notes: list[str] = []
    desk = Desk(notes)
    async with trio.open_nursery() as nursery:
        batches = Batches(ScriptedConsumer(6, notes), desk.work, nursery)
        assert await batches.step(2, 1) == 2
        nursery.start_soon(batches.step, 2, 1)
        await wait_all_tasks_blocked()
        assert notes == ["take 2", "work from 0", "take 2"]  # Ahead of the work, and nothing is committed.
        desk.let_one_end()
        await wait_all_tasks_blocked()
        assert sorted(notes[3:]) == ["commit 2", "done", "work from 2"]
        desk.let_one_end()
        await batches.close()
    assert notes[6:] == ["done", "commit 4", "close"]


@trio_test
async def test_what_is_not_full_is_committed_before_anyone_waits_for_more() -> None:
    notes: list[str] = []
    desk = Desk(notes)
    async with trio.open_nursery() as nursery:
        batches = Batches(ScriptedConsumer(3, notes), desk.work, nursery)
        await batches.step(2, 1)
        desk.let_one_end()
        desk.let_one_end()
        assert await batches.step(2, 1) == 1
        assert notes[-1] == "commit 3" and notes.count("done") == 2
        assert await batches.step(2, 1) == 0
        await batches.close()
    assert notes[-2:] == ["take 0", "close"]


@trio_test
async def test_a_commit_without_an_answer_does_not_keep_the_end_waiting() -> None:
    notes: list[str] = []
    desk = Desk(notes)
    consumer = ScriptedConsumer(2, notes)
    consumer.refuses = True
    async with trio.open_nursery() as nursery:
        batches = Batches(consumer, desk.work, nursery)
        assert await batches.step(2, 1) == 2
        desk.let_one_end()
        await batches.close()
    assert notes[-2:] == ["commit 2", "close"]


@trio_test
async def test_work_that_fails_is_not_committed() -> None:
    notes: list[str] = []

    async def fail(records: Sequence[Record]) -> None:
        raise RuntimeError("a broken invariant")

    with pytest.raises(ExceptionGroup):
        async with trio.open_nursery() as nursery:
            batches = Batches(ScriptedConsumer(4, notes), fail, nursery)
            try:
                while True:
                    await batches.step(2, 1)
            finally:
                await batches.close()
    assert notes[-1] == "close" and not any(note.startswith("commit") for note in notes)


@trio_test
async def test_long_work_keeps_the_membership_and_commits_what_is_dealt_with(clock: MockClock) -> None:
    notes: list[str] = []
    go = trio.Event()

    async def slow(records: Sequence[Record]) -> int:
        batches.dealt_with(records[:1])
        await go.wait()
        return 2

    async with trio.open_nursery() as nursery:
        consumer = ScriptedConsumer(3, notes)
        batches = Batches(consumer, slow, nursery)
        nursery.start_soon(batches.step, 10, 1)
        await trio.sleep(3.5)
        assert notes == ["take 3", "stays", "commit 1", "stays", "stays"]
        go.set()
        await trio.sleep(1)
        assert notes[5:] == ["commit 2"]  # Of the third it said that nothing was done.
        assert not consumer.paused
        await batches.close()
