"""What tests of attempts need of a worker: a store that remembers what it was told, and a workshop on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from shardwheel.errors import UnavailableError
from shardwheel.execution import Claimed, Held, Note
from shardwheel.workers.notes import Notes, ThreadDesk
from shardwheel.workers.run import Workshop
from shardwheel.workers.secrets import EnvironmentSecrets


def claimed(number: int, task: str = "work", timeout_ms: int = 60_000, **fields: Any) -> Claimed:
    return Claimed(
        execution_id=number.to_bytes(16, "big"),
        job_id=bytes(16),
        partition=0,
        tenant_id="t",
        task=task,
        params=b'{"number": %d}' % number,
        scheduled_ms=0,
        due_ms=0,
        attempt=1,
        failures=0,
        timeout_ms=timeout_ms,
        claim_token=bytes(16),
    )._replace(**fields)


class ListeningStore:
    """`NotesStore` of one execution, in memory."""

    def __init__(self) -> None:
        self.batches: list[list[Note]] = []
        self.checkpoint = b"null"
        self.is_current = True
        self.is_away = False

    async def write_notes(self, said: Sequence[Note], log_limit_bytes: int) -> None:
        await self._reach()
        self.batches.append(list(said))

    async def store_checkpoint(self, held: Held, data: bytes) -> bool:
        await self._reach()
        if self.is_current:
            self.checkpoint = data
        return self.is_current

    async def load_checkpoint(self, held: Held) -> bytes | None:
        await self._reach()
        return self.checkpoint if self.is_current else None

    async def load_inputs(self, execution_id: bytes) -> bytes:
        await self._reach()
        return b'{"outputs": {"a": [1], "b": null}, "skipped_parents": ["b"]}'

    async def _reach(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_away:
            raise UnavailableError("away")


def workshop(notes: Notes | None = None, threads: int = 5, **environ: str) -> Workshop:
    desk = notes or Notes(ListeningStore(), trio.lowlevel.current_clock().current_time)
    return Workshop(
        trio.CapacityLimiter(threads), desk, ThreadDesk(desk), EnvironmentSecrets(environ=environ)
    )
