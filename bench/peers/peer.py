"""What a peer has to be able to do: the one small interface behind which each of them is driven.

A peer's object is made twice: in the driver, which adds jobs and looks on, and in the host, a process of its
own that runs the jobs. Where only the process that runs jobs can add them (`inside`), the host does both.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from shardwheel.bench.peers.work import Once, Plan


class Place(NamedTuple):
    """Where a peer works: a database of its own, and a folder of its own."""

    dsn: str
    folder: Path


class Peer:
    """Durable, in a process of its own, adding from anywhere: whatever differs is said by the subclass."""

    package: ClassVar[str]
    settings: ClassVar[str]
    # Row → why it can't.
    cannot: ClassVar[dict[str, str]] = {}
    durable: ClassVar[bool] = True
    # Jobs can only be added by the process that runs them.
    inside: ClassVar[bool] = False
    # Recurring jobs are code: declared when the process starts, not added later.
    declares: ClassVar[bool] = False
    # A minute is the finest that a recurring job may say.
    by_minutes: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self.place = place

    def create(self) -> None:
        """Make the tables, and whatever must be there before the first job; called once, in the driver."""

    def serve(self, plans: Sequence[Plan]) -> None:
        """Begin to run jobs in this process or in children of it; return when ready."""
        raise NotImplementedError

    def add_once(self, jobs: Sequence[Once]) -> None:
        raise NotImplementedError

    def enqueue(self, numbers: Sequence[int]) -> None:
        """Jobs that are due now."""
        raise NotImplementedError

    def add_recurring(self, plans: Sequence[Plan]) -> None:
        raise NotImplementedError

    def unfinished(self) -> int:
        """How many jobs have run, or should, without their end being recorded."""
        return 0

    def pids(self) -> list[int]:
        """The processes whose memory holds the schedules, as the host sees them."""
        return [os.getpid()]

    def close(self) -> None:
        """Stop what `create` or `serve` started beside this process."""


# Name → module and class, and the environment that has its packages ("" is our own).
PEERS: Final = {
    "shardwheel": ("ours:Ours", ""),
    "apscheduler3-memory": ("apscheduler3:InMemory", "peers"),
    "apscheduler3-postgres": ("apscheduler3:InPostgres", "peers"),
    "apscheduler4-postgres": ("apscheduler4:InPostgres", "peers-next"),
    "procrastinate": ("procrastinate:InPostgres", "peers"),
    "pgqueuer": ("pgqueuer:InPostgres", "peers"),
    "huey-postgres": ("huey:InPostgres", "peers"),
    "celery-sqlalchemy": ("celery:OnPostgres", "peers"),
    "naive-heapq": ("naive_heapq:Heap", ""),
    "naive-postgres": ("naive_postgres:Poller", ""),
}


def peer_class(name: str) -> type[Peer]:
    module, _, attribute = PEERS[name][0].partition(":")
    found: type[Peer] = getattr(import_module(f"shardwheel.bench.peers.{module}"), attribute)
    return found


def version_of(peer: type[Peer]) -> str:
    return version(peer.package) if peer.package else ""
