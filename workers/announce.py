"""A worker says that it is there and what it has handlers for: what was held for want of one then goes on."""

from __future__ import annotations

from typing import Protocol

import trio

from shardwheel.errors import UnavailableError
from shardwheel.limits import WorkerCard
from shardwheel.service import Service

EVERY_S = 10.0
PAUSE_S = 1.0


class AnnouncingStore(Protocol):
    """What announcing asks of the store."""

    async def announce_worker(self, worker: WorkerCard) -> None: ...

    async def withdraw_worker(self, worker_id: str) -> None: ...


async def announce(service: Service, store: AnnouncingStore, card: WorkerCard) -> None:
    """Until the service stops; then the worker is struck off, as well as it can be."""
    while not service.stopping.is_set():
        pause_s = EVERY_S
        try:
            await store.announce_worker(card._replace(address=service.address))
            service.health.well("announce")
        except UnavailableError as error:
            service.health.unwell("announce", str(error))
            pause_s = PAUSE_S
        with trio.move_on_after(pause_s):
            await service.stopping.wait()
    try:
        await store.withdraw_worker(card.worker_id)
    except UnavailableError:
        return  # It will be silent, which says the same a little later.
