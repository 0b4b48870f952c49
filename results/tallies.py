"""Tallies: how the runs of each task type ended, added up here for a second and then stored.

Once a second instead of once a batch: settling pays nothing for breakers and retry budgets. What was added up
and not stored when the process dies is lost, which makes a breaker a second late and nothing else wrong.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Protocol

import trio

from shardwheel.errors import UnavailableError
from shardwheel.limits import LANES, Tally, TaskName, add_tallies
from shardwheel.service import Service

EVERY_S = 1.0


class TallyStore(Protocol):
    """What tallies ask of the store."""

    async def tally(self, counted: Mapping[TaskName, Tally], lane: int) -> None: ...


class Tallies:
    def __init__(self, service: Service, store: TallyStore, lane: int | None = None) -> None:
        self._service = service
        self._store = store
        # Rows of one's own, by chance: two processors on one lane only wait for each other.
        self._lane = random.randrange(LANES) if lane is None else lane
        self._counted: dict[TaskName, Tally] = {}

    def add_to_service(self) -> None:
        self._service.add_loop("tally", self._run)

    def add(self, counted: Mapping[TaskName, Tally]) -> None:
        add_tallies(self._counted, counted)

    async def _run(self) -> None:
        while not self._service.stopping.is_set():
            with trio.move_on_after(EVERY_S):
                await self._service.stopping.wait()
            await self.run_once()

    async def run_once(self) -> None:
        """Store what was added up; keep it for the next time if the database is away."""
        counted, self._counted = self._counted, {}
        if not counted:
            return
        try:
            await self._store.tally(counted, self._lane)
        except UnavailableError as error:
            add_tallies(self._counted, counted)
            self._service.health.unwell("tally", str(error))
        else:
            self._service.health.well("tally")
