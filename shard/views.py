"""What a shard is given of the cluster: view after view (the coordinator's `Members` reads them)."""

from __future__ import annotations

from typing import Protocol

from shardwheel.records import View


class Views(Protocol):
    """The cluster as it is read again and again; `newer` waits for the next view, `hint` hastens it."""

    @property
    def view(self) -> View | None: ...
    async def newer(self, number: int) -> int: ...
    def hint(self) -> None: ...
    def end(self) -> None: ...
