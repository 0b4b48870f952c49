"""A shard that can be told to stop or kill itself at a step of taking or handing over a partition.

    python -m tests.integration.cluster.stepping FOLDER shard

It is `shardctl shard`, with its steps wrapped from outside: no switch of the product does this. A test writes
`FOLDER/<pid>.armed` ("step signal"); the first time that the process comes to that step it writes
`<pid>.reached` and sends itself the signal, so that the step is hit exactly, however slow the machine. What
it asks PostgreSQL to store in vain is listed in `<pid>.refused`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from shardwheel.cli import main
from shardwheel.ports import Identity, Watermark
from shardwheel.shard.mirror import Mirror
from shardwheel.shard.owner import Owner
from shardwheel.shard.ticker import Ticker
from shardwheel.store.postgres import PostgresStore

# Steps of the old owner, in their order.
BEFORE_THE_TICK = "hand over: before it stops at a tick"
NOT_ACKNOWLEDGED = "hand over: stopped, not acknowledged"
NOT_STORED = "hand over: acknowledged, not stored"
NOT_DELETED = "hand over: stored, key not deleted"
DELETED = "hand over: key deleted"
# Steps of the new owner, in their order.
NOT_READY = "take: loaded, not said to be ready"
READY = "take: said to be ready"
NOT_WRITTEN = "take: epoch seen, key not written"
NOT_BUMPED = "take: key written, epoch not bumped"
NOT_PROMOTED = "take: epoch bumped, shadow not promoted"
TAKEN = "take: taken"
# Of any owner.
STORING = "store: about to store a watermark"

HANDING_OVER = (BEFORE_THE_TICK, NOT_ACKNOWLEDGED, NOT_STORED, NOT_DELETED, DELETED)
TAKING = (NOT_READY, READY, NOT_WRITTEN, NOT_BUMPED, NOT_PROMOTED, TAKEN)


class Steps:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, word: str) -> Path:
        return self._folder / f"{os.getpid()}.{word}"

    def come_to(self, step: str) -> None:
        armed = self._file("armed")
        if not armed.exists():
            return
        wanted, _, name = armed.read_text().rpartition(" ")
        if wanted == step:
            armed.unlink()
            self._file("reached").touch()
            os.kill(os.getpid(), signal.Signals[name])

    def note_refused(self, partitions: set[int]) -> None:
        with self._file("refused").open("a") as file:
            file.write("".join(f"{partition}\n" for partition in sorted(partitions)))


def wrap(
    kind: type,
    name: str,
    *,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
    when: Callable[..., object] = lambda *_: True,
) -> None:
    """Put steps around a method, for calls of which `when` holds (asked before the call)."""
    method: Callable[..., Awaitable[Any]] = getattr(kind, name)

    async def wrapped(self: Any, *args: Any) -> Any:
        if not when(self, *args):
            return await method(self, *args)
        before()
        answer = await method(self, *args)
        after()
        return answer

    setattr(kind, name, wrapped)


def plant(steps: Steps) -> None:
    def step(name: str) -> Callable[[], None]:
        return partial(steps.come_to, name)

    def hands_over(owner: Owner, *_: object) -> bool:
        return bool(owner.handing_over)

    def given_some(_: object, *args: Any) -> bool:
        return bool(args[0])

    wrap(Owner, "hand_over", before=step(BEFORE_THE_TICK))
    wrap(Ticker, "all_acknowledged", before=step(NOT_ACKNOWLEDGED))
    wrap(Owner, "store_watermarks", before=step(NOT_STORED), when=hands_over)
    wrap(Owner, "release", before=step(NOT_DELETED), after=step(DELETED), when=hands_over)
    wrap(Owner, "say_ready", before=step(NOT_READY), after=step(READY), when=given_some)
    wrap(Owner, "_write_keys", before=step(NOT_WRITTEN))
    wrap(Owner, "_bump", before=step(NOT_BUMPED), when=given_some)
    wrap(Mirror, "promote", before=step(NOT_PROMOTED), when=given_some)
    wrap(Owner, "take", after=step(TAKEN))
    plant_store(steps)


def plant_store(steps: Steps) -> None:
    store = PostgresStore.store_watermarks

    async def noted(self: PostgresStore, watermarks: Sequence[Watermark], identity: Identity) -> set[int]:
        steps.come_to(STORING)
        with trio.CancelScope(shield=True):  # A shard that ends meanwhile still hears the answer.
            refused = await store(self, watermarks, identity)
        steps.note_refused(refused)
        return refused

    setattr(PostgresStore, "store_watermarks", noted)  # noqa: B010 - mypy wants no method assigned to.


if __name__ == "__main__":
    plant(Steps(Path(sys.argv.pop(1))))
    main()
