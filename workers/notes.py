"""Notes: what running attempts leave word of, and how it comes into the database.

Progress and log lines are gathered and written for all attempts in one statement, every second while there is
something new: a call from a handler costs an append, no statement. A checkpoint is a statement of its own,
since it is durable when the call returns. Everything is fenced by attempt and claim token: an attempt that is
not the current one changes nothing.

So the last words of an attempt are written before its result is published, for once that is settled nobody
would believe them any more. An attempt that said nothing, as most do, does not come by here at all.

    handler: log ── log ── progress ──────── log ── returns
                              │ every second           │ its last words, with those of others that end now
                              ▼                        ▼
    database:            log, progress             log ──── then its result is published

Lines are numbered from 1 in each attempt. What had to be dropped, always the oldest, is a gap in the numbers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec
import trio

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.execution import Claimed, Held, Note
from shardwheel.handler import Superseded
from shardwheel.logs import get_logger
from shardwheel.workers.context import CHECKPOINT_LIMIT_BYTES, LEVELS
from shardwheel.workers.values import require_storable, storable_text

WRITE_EVERY_S = 1.0
# Long enough to gather the last words of many that end at about the same time.
GATHER_S = 0.005
PAUSE_S = 0.5
# Without the database so long: lines are dropped, and results go their way without them.
PATIENCE_S = 10.0
NOTE_LIMIT = 500
LINE_LIMIT = 4_000
# Kept of one execution: the statement sees to it.
LOG_LIMIT_BYTES = 65_536
# One row of lines: what is dropped later is dropped by the row.
ROW_LIMIT_BYTES = 8_192
# At most unwritten of one attempt: with what makes rows of its lines it is still within the limit.
ATTEMPT_LIMIT_BYTES = LOG_LIMIT_BYTES - ROW_LIMIT_BYTES
# Unwritten of all attempts together; beyond it each keeps only its last row's worth.
UNWRITTEN_LIMIT_BYTES = 32 * 1024 * 1024
ROWS_AT_ONCE = 500
CHECKPOINTS_AT_ONCE = 2

Key = tuple[bytes, bytes]
_Answer = TypeVar("_Answer")


class NotesStore(Protocol):
    """What notes ask of the store."""

    async def write_notes(self, said: Sequence[Note], log_limit_bytes: int) -> None: ...

    async def store_checkpoint(self, held: Held, data: bytes) -> bool: ...

    async def load_checkpoint(self, held: Held) -> bytes | None: ...

    async def load_inputs(self, execution_id: bytes) -> bytes: ...


class _Said:
    """What one attempt has said and is not written yet, and how many lines it has said in all."""

    __slots__ = ("claimed", "lines", "progress", "said", "size")

    def __init__(self, claimed: Claimed) -> None:
        self.claimed = claimed
        self.progress = b""
        self.lines: deque[bytes] = deque()
        self.size = 0
        self.said = 0

    def add(self, line: bytes, most_bytes: int) -> int:
        """Returns by how much the unwritten grew, or shrank."""
        before = self.size
        self.lines.append(line)
        self.said += 1
        self.size += len(line)
        while self.size > most_bytes and len(self.lines) > 1:
            self.size -= len(self.lines.popleft())
        return self.size - before

    def take(self) -> list[Note]:
        """All that is unwritten, as rows; now it counts as written."""
        one, notes = self.claimed, []
        first_line = self.said - len(self.lines) + 1
        head = (one.execution_id, one.attempt, one.claim_token)
        for row in _rows(self.lines):
            notes.append(Note(*head, b"", first_line, len(row), b"[" + b",".join(row) + b"]"))
            first_line += len(row)
        if self.progress:
            first = notes[0] if notes else Note(*head)
            notes[:1] = [first._replace(progress=self.progress)]
        self.progress, self.size = b"", 0
        self.lines.clear()
        return notes


def _rows(lines: Iterable[bytes]) -> list[list[bytes]]:
    rows: list[list[bytes]] = []
    size = ROW_LIMIT_BYTES
    for line in lines:
        if size + len(line) > ROW_LIMIT_BYTES:
            rows.append([])
            size = 0
        rows[-1].append(line)
        size += len(line) + 1
    return rows


class Notes:
    """The desk of one worker (`context.Desk`)."""

    def __init__(self, store: NotesStore, now_ms: Callable[[], float]) -> None:
        self._store = store
        self._now_ms = now_ms
        # Threads leave word too.
        self._lock = threading.Lock()
        self._said: dict[Key, _Said] = {}
        self._unwritten_bytes = 0
        self._leaving: dict[Key, Callable[[], None]] = {}
        self._somebody_leaves = trio.Event()
        self._checkpoints = trio.CapacityLimiter(CHECKPOINTS_AT_ONCE)
        self._log = get_logger(part="notes")

    # --- what handlers say ---------------------------------------------------------------------------

    def progress(self, claimed: Claimed, percent: float, note: str) -> None:
        if not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise UsageError(f"progress: {percent!r} is not a number from 0 to 100", field="progress")
        data = msgspec.json.encode({"pct": percent, "note": storable_text(str(note), NOTE_LIMIT)})
        with self._lock:
            self._of(claimed).progress = data

    def log(self, claimed: Claimed, level: str, text: str) -> None:
        if level not in LEVELS:
            raise UsageError(f"level: {level!r} is not one of {', '.join(LEVELS)}", field="level")
        line = msgspec.json.encode((round(self._now_ms()), level, storable_text(str(text), LINE_LIMIT)))
        with self._lock:
            is_much = self._unwritten_bytes > UNWRITTEN_LIMIT_BYTES
            most_bytes = ROW_LIMIT_BYTES if is_much else ATTEMPT_LIMIT_BYTES
            self._unwritten_bytes += self._of(claimed).add(line, most_bytes)

    def _of(self, claimed: Claimed) -> _Said:
        key = (claimed.execution_id, claimed.claim_token)
        said = self._said.get(key)
        if said is None:
            said = self._said[key] = _Said(claimed)
        return said

    async def checkpoint(self, claimed: Claimed, data: bytes) -> None:
        require_storable("checkpoint", data, CHECKPOINT_LIMIT_BYTES)
        if not await self._ask(lambda: self._store.store_checkpoint(_held(claimed), data)):
            raise _superseded(claimed)

    async def load_checkpoint(self, claimed: Claimed) -> bytes:
        data = await self._ask(lambda: self._store.load_checkpoint(_held(claimed)))
        if data is None:
            raise _superseded(claimed)
        return data

    async def load_inputs(self, claimed: Claimed) -> bytes:
        return await self._ask(lambda: self._store.load_inputs(claimed.execution_id))

    async def _ask(self, question: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Ask until there is an answer: either question may be put twice. Few at a time, so that claims and
        heartbeats find a connection."""
        give_up_at = trio.current_time() + PATIENCE_S
        while True:
            try:
                async with self._checkpoints:
                    return await question()
            except UnavailableError:
                if trio.current_time() > give_up_at:
                    raise
            await trio.sleep(PAUSE_S)

    # --- how it is written ---------------------------------------------------------------------------

    def has(self, claimed: Claimed) -> bool:
        """Whether this attempt has ever left word."""
        return bool(self._said) and (claimed.execution_id, claimed.claim_token) in self._said

    def leave(self, claimed: Claimed, then: Callable[[], None]) -> None:
        """The attempt ends: call `then` once its last words are written, or can't be."""
        self._leaving[claimed.execution_id, claimed.claim_token] = then
        self._somebody_leaves.set()

    async def run(self) -> None:
        """Write what is said, all of it once a second, of those that leave at once; until cancelled."""
        write_all_at = trio.current_time() + WRITE_EVERY_S
        while True:
            with trio.move_on_at(write_all_at):
                await self._somebody_leaves.wait()
                await trio.sleep(GATHER_S)
            is_time = trio.current_time() >= write_all_at
            if is_time:
                write_all_at = trio.current_time() + WRITE_EVERY_S
            await self._write_leaving(and_all_others=is_time)

    async def _write_leaving(self, *, and_all_others: bool) -> None:
        leaving, self._leaving = self._leaving, {}
        self._somebody_leaves = trio.Event()
        await self._write(self._take(self._said if and_all_others else leaving))
        with self._lock:
            for key in leaving:
                self._said.pop(key, None)
        for then in leaving.values():
            then()

    def _take(self, keys: Iterable[Key]) -> list[Note]:
        notes: list[Note] = []
        with self._lock:
            for key in keys:
                said = self._said.get(key)
                if said is not None:
                    self._unwritten_bytes -= said.size
                    notes += said.take()
        return notes

    async def _write(self, notes: Sequence[Note]) -> None:
        give_up_at = trio.current_time() + PATIENCE_S
        for at in range(0, len(notes), ROWS_AT_ONCE):
            while True:
                try:
                    await self._store.write_notes(notes[at : at + ROWS_AT_ONCE], LOG_LIMIT_BYTES)
                    break
                except UnavailableError as error:
                    if trio.current_time() > give_up_at:
                        self._log.warning("lines are lost", rows=len(notes) - at, reason=str(error))
                        return
                await trio.sleep(PAUSE_S)


class ThreadDesk:
    """The same desk for handlers in threads (`context.PlainDesk`)."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.progress, self.log = notes.progress, notes.log
        # Named, since a thread that was given up may still ask.
        self._trio = trio.lowlevel.current_trio_token()

    def checkpoint(self, claimed: Claimed, data: bytes) -> None:
        trio.from_thread.run(self._notes.checkpoint, claimed, data, trio_token=self._trio)

    def load_checkpoint(self, claimed: Claimed) -> bytes:
        return trio.from_thread.run(self._notes.load_checkpoint, claimed, trio_token=self._trio)

    def load_inputs(self, claimed: Claimed) -> bytes:
        return trio.from_thread.run(self._notes.load_inputs, claimed, trio_token=self._trio)


def _held(claimed: Claimed) -> Held:
    return Held(claimed.execution_id, claimed.attempt, claimed.claim_token)


def _superseded(claimed: Claimed) -> Superseded:
    return Superseded(f"attempt {claimed.attempt} is not the current one any more: nothing of it counts")
