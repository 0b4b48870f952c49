"""The leader's loop: elected among the shards, it alone moves the claim floor.

It is not on the fail-over path: without a leader floors stand still and everything fires on.
"""

from __future__ import annotations

from typing import Protocol

import trio

from shardwheel.coordinator.floor import FloorMover, FloorStore
from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.logs import get_logger
from shardwheel.ports import Bus, Election, Leases
from shardwheel.service import Service

ROUND_S = 2.0


class Candidate(Protocol):
    """Who may lead: a member with a lease."""

    @property
    def shard_id(self) -> str: ...

    @property
    def lease(self) -> int: ...


class Lead:
    def __init__(
        self, service: Service, store: FloorStore, bus: Bus, leases: Leases, candidate: Candidate
    ) -> None:
        self._service = service
        self._leases = leases
        self._candidate = candidate
        self._floor = FloorMover(store, bus)
        self._log = get_logger(shard=candidate.shard_id)
        self.leads = False

    def add_to_service(self) -> None:
        self._service.add_loop("lead", self._run)

    async def _run(self) -> None:
        election = self._leases.election("leader", self._candidate.lease, self._candidate.shard_id.encode())
        while not self._service.stopping.is_set():
            try:
                await self.run_once(election)
                self._service.health.well("lead")
            except (UnavailableError, NotFoundError) as error:
                self._service.health.unwell("lead", str(error))
            with trio.move_on_after(ROUND_S):
                await self._service.stopping.wait()

    async def run_once(self, election: Election) -> None:
        leads = await election.campaign()
        if leads != self.leads:
            self.leads = leads
            self._log.info("leads" if leads else "follows")
        if leads:
            await self._floor.run_once()
