"""A fork server of its own for a test, a desk that remembers, and processes watched by their descriptors: a
number may come to mean another process, and waiting for an end is an event, not a sleep."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import msgspec
import trio

from shardwheel.execution import Claimed
from shardwheel.isolation import Limits
from shardwheel.service import Health
from shardwheel.workers.children import InChild
from shardwheel.workers.isolated import Isolation
from shardwheel.workers.run import End

MODULE = "tests.unit.workers.isolated_handlers"
LIMIT_S = 30.0


class Desk:
    """`context.Desk`: what was said, and the lines as they come."""

    def __init__(self) -> None:
        self.percent: list[tuple[float, str]] = []
        self.said: list[tuple[str, str]] = []
        self.stored = b"null"
        self._lines, self.lines = trio.open_memory_channel[str](10_000)

    def progress(self, claimed: Claimed, percent: float, note: str) -> None:
        self.percent.append((percent, note))

    def log(self, claimed: Claimed, level: str, text: str) -> None:
        self.said.append((level, text))
        self._lines.send_nowait(text)

    async def checkpoint(self, claimed: Claimed, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.stored = data

    async def load_checkpoint(self, claimed: Claimed) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.stored

    async def load_inputs(self, claimed: Claimed) -> bytes:
        await trio.lowlevel.checkpoint()
        return b'{"outputs": {"a": [1], "b": null}, "skipped_parents": ["b"]}'

    @property
    def text(self) -> str:
        return "\n".join(text for _, text in self.said)


class IsolatedRig:
    def __init__(self, module: str, user: str) -> None:
        self.health = Health()
        self.isolation = Isolation(module, self.health, user=user)
        self.desk = Desk()

    async def call(
        self,
        task: str,
        params: Any = None,
        *,
        known: tuple[str, ...] = (),
        timeout_s: float = LIMIT_S,
        grace_s: float = LIMIT_S,
        **limits: Any,
    ) -> End:
        body = msgspec.json.encode(params)
        claimed = Claimed(bytes(16), bytes(16), 0, "t", task, body, 0, 0, 3, 0, 60_000, b"token")
        child = InChild(claimed, self.desk, known, lambda: False)
        order = child.order(Limits(**limits), params, timeout_s, grace_s)
        return await self.isolation.call(order, child)

    async def people(self) -> dict[str, Any]:
        """Who is who, as a handler says it."""
        who: dict[str, Any] = json.loads(await self.desk.lines.receive())
        return who


@asynccontextmanager
async def isolating(module: str = MODULE, user: str = "") -> AsyncIterator[IsolatedRig]:
    rig = IsolatedRig(module, user)
    with trio.fail_after(2 * LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.isolation.run)
            try:
                yield rig
            finally:
                nursery.cancel_scope.cancel()


class Watched:
    """Processes, by descriptors taken while they lived. Whatever the test finds out, none of them is left."""

    def __init__(self, pids: list[int]) -> None:
        self._descriptors = [os.pidfd_open(pid) for pid in pids]

    def are_gone(self, limit_s: float = LIMIT_S) -> bool:
        """All of them, each at the latest after the limit."""
        return all(select.select([one], [], [], limit_s)[0] for one in self._descriptors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)
