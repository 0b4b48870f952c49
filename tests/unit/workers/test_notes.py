"""Notes: gathered, written once a second and before the result, bounded, and lost only with a word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import UsageError
from shardwheel.execution import Note
from shardwheel.handler import Superseded
from shardwheel.workers import notes as notes_module
from shardwheel.workers.context import perform
from shardwheel.workers.notes import ATTEMPT_LIMIT_BYTES, LOG_LIMIT_BYTES, ROW_LIMIT_BYTES, Notes
from tests.unit.workers.rig import ListeningStore, claimed


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


@asynccontextmanager
async def writing(store: ListeningStore) -> AsyncIterator[Notes]:
    notes = Notes(store, lambda: trio.current_time() * 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notes.run)
        yield notes
        nursery.cancel_scope.cancel()


def texts(note: Note) -> list[str]:
    return [line[2] for line in msgspec.json.decode(note.lines)]


@trio_test
async def test_what_is_said_within_a_second_is_one_statement(clock: MockClock) -> None:
    store = ListeningStore()
    async with writing(store) as notes:
        one, other = claimed(1), claimed(2)
        for number in range(3):
            notes.log(one, "info", f"line {number}")
            notes.progress(other, number, "")
        await trio.sleep(1.5)
        ((first, second),) = store.batches
        assert (first.first_line, first.line_count, texts(first)) == (1, 3, ["line 0", "line 1", "line 2"])
        assert (second.progress, second.line_count) == (b'{"pct":2,"note":""}', 0)
        notes.log(one, "warning", "more")
        await trio.sleep(5)
        assert [(note.first_line, texts(note)) for note in store.batches[1]] == [(4, ["more"])]
        assert len(store.batches) == 2


@trio_test
async def test_the_last_words_are_written_before_the_end_and_those_of_others_later(clock: MockClock) -> None:
    store = ListeningStore()
    async with writing(store) as notes:
        one, other, silent = claimed(1), claimed(2), claimed(3)
        notes.log(one, "info", "last")
        notes.log(other, "info", "not yet")
        assert notes.has(one) and not notes.has(silent)
        written_when_it_left: list[int] = []
        notes.leave(one, lambda: written_when_it_left.append(len(store.batches)))
        await trio.sleep(0.1)
        assert written_when_it_left == [1]
        assert [texts(note) for note in store.batches[0]] == [["last"]]
        assert not notes.has(one)
        await trio.sleep(1)
        assert [texts(note) for note in store.batches[1]] == [["not yet"]]


@trio_test
async def test_the_oldest_unwritten_lines_give_way_and_leave_a_gap(clock: MockClock) -> None:
    store = ListeningStore()
    async with writing(store) as notes:
        for number in range(1_000):
            notes.log(claimed(1), "info", f"{number:04} " + "x" * 100)
        await trio.sleep(1.5)
    (rows,) = store.batches
    assert rows[0].first_line > 1
    assert rows[-1].first_line + rows[-1].line_count == 1_001
    assert all(len(row.lines) <= ROW_LIMIT_BYTES + 200 for row in rows)
    assert ATTEMPT_LIMIT_BYTES - 200 < sum(len(row.lines) for row in rows) <= LOG_LIMIT_BYTES
    following = [row.first_line + row.line_count for row in rows[:-1]]
    assert following == [row.first_line for row in rows[1:]]


@trio_test
async def test_a_database_that_is_away_is_waited_for_but_not_for_ever(clock: MockClock) -> None:
    store = ListeningStore()
    async with writing(store) as notes:
        store.is_away = True
        left: list[str] = []
        notes.log(claimed(1), "info", "kept")
        notes.leave(claimed(1), lambda: left.append("first"))
        await trio.sleep(5)
        assert left == []
        store.is_away = False
        await trio.sleep(1)
        assert (left, len(store.batches)) == (["first"], 1)
        store.is_away = True
        notes.log(claimed(2), "info", "lost")
        notes.leave(claimed(2), lambda: left.append("second"))
        await trio.sleep(2 * notes_module.PATIENCE_S)
        assert (left, len(store.batches)) == (["first", "second"], 1)


@trio_test
async def test_a_checkpoint_is_stored_on_return_and_refused_to_a_stale_attempt(clock: MockClock) -> None:
    store = ListeningStore()
    notes = Notes(store, trio.current_time)
    assert await notes.load_checkpoint(claimed(1)) == b"null"
    await notes.checkpoint(claimed(1), b"[1]")
    assert (store.checkpoint, await notes.load_checkpoint(claimed(1))) == (b"[1]", b"[1]")
    store.is_current = False
    with pytest.raises(Superseded, match="attempt 1 is not the current one"):
        await notes.checkpoint(claimed(1), b"[2]")
    with pytest.raises(Superseded):
        await notes.load_checkpoint(claimed(1))
    with pytest.raises(UsageError, match="checkpoint: it has 70000 bytes"):
        await notes.checkpoint(claimed(1), b"1" * 70_000)


@trio_test
async def test_a_checkpoint_waits_for_a_database_that_comes_back(clock: MockClock) -> None:
    store = ListeningStore()
    store.is_away = True
    notes = Notes(store, trio.current_time)

    async def come_back() -> None:
        await trio.sleep(3)
        store.is_away = False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(come_back)
        await notes.checkpoint(claimed(1), b"7")
    assert store.checkpoint == b"7"


@trio_test
async def test_operations_by_name_as_a_child_process_asks_for_them(clock: MockClock) -> None:
    store = ListeningStore()
    notes = Notes(store, trio.current_time)
    assert await perform(notes, claimed(1), "progress", [10, "a"]) is None
    assert await perform(notes, claimed(1), "log", ["error", "b"]) is None
    assert await perform(notes, claimed(1), "checkpoint", [b"3"]) is None
    assert await perform(notes, claimed(1), "load_checkpoint", []) == b"3"
    for operation, arguments, field in (
        ("leave", [], "operation"),
        ("progress", [101, ""], "progress"),
        ("progress", ["half", ""], "progress"),
        ("progress", [float("nan"), ""], "progress"),
        ("log", ["loud", "x"], "level"),
        ("checkpoint", [b'"\\u0000"'], "checkpoint"),
    ):
        with pytest.raises(UsageError) as caught:
            await perform(notes, claimed(1), operation, arguments)
        assert caught.value.field == field
