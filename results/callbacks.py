"""Delivers callbacks: tells a job's callback_url of each end, signed, at least once, for some hours.

Here, beside the settling, since most ends are written here, and any number of processors may share the work:
a row is taken by moving its next try on. But on connections of its own: a receiver that hangs must not hold
up a result. No receiver gets more than a few places, so that none holds up the others either.

    taken ── POST ── 2xx: delivered
                  └─ else: again after 10 s, 20 s, … an hour; after `limit` it is given up, and says so
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Protocol

import trio

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.execution import Callback
from shardwheel.ids import text_of
from shardwheel.logs import get_logger
from shardwheel.metrics import CALLBACKS
from shardwheel.retry import Backoff, wait_ms
from shardwheel.service import Service
from shardwheel.signature import HEADER, sign

PLACES = 64
PLACES_OF_ONE = 4
PAUSE_S = 1.0
BACKOFF = Backoff(base_s=10, max_s=3600)
LONGEST_PROBLEM = 500


class CallbackStore(Protocol):
    """What delivering asks of the store."""

    async def take_callbacks(self, most: int, busy: Collection[str]) -> list[Callback]: ...
    async def callback_delivered(self, callback: Callback) -> None: ...
    async def callback_failed(self, callback: Callback, problem: str, pause: timedelta | None) -> None: ...


class Poster(Protocol):
    async def post(self, url: str, body: bytes, headers: dict[str, str]) -> None: ...


class Callbacks:
    """`run_once` takes what is due and starts its tries in the nursery; it waits for none of them."""

    def __init__(
        self, service: Service, store: CallbackStore, poster: Poster, *, secret: str, limit: timedelta
    ) -> None:
        self._service = service
        self._store = store
        self._poster = poster
        self._secret = secret
        self._limit = limit
        self._under_way: Counter[str] = Counter()
        self._log = get_logger(role="results")

    def add_to_service(self) -> None:
        if not self._secret:
            self._log.warning("callbacks are not sent", remedy="set callback_secret")
        self._service.add_loop("callbacks", self._run)

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            while not self._service.stopping.is_set():
                taken = await self._attempt(nursery)
                with trio.move_on_after(0 if taken else PAUSE_S):
                    await self._service.stopping.wait()

    async def _attempt(self, nursery: trio.Nursery) -> int:
        try:
            taken = await self.run_once(nursery)
        except UnavailableError as error:
            self._service.health.unwell("callbacks", str(error))
            return 0
        self._service.health.well("callbacks")
        return taken

    async def run_once(self, nursery: trio.Nursery) -> int:
        """How many were taken. Without a secret none is: nothing goes out unsigned."""
        places = PLACES - self._under_way.total()
        if not self._secret or places <= 0:
            return 0
        busy = [host for host, count in self._under_way.items() if count >= PLACES_OF_ONE]
        callbacks = await self._store.take_callbacks(places, busy)
        for callback in callbacks:
            self._under_way[callback.host] += 1
            nursery.start_soon(self._deliver, callback)
        return len(callbacks)

    async def _deliver(self, callback: Callback) -> None:
        try:
            await self._try(callback)
        except UnavailableError as error:
            # What was not written down is tried again once it is due: at least once.
            self._log.warning("callback's end not stored", reason=str(error))
        finally:
            self._under_way[callback.host] -= 1
            self._under_way += Counter()  # drops those that are at zero

    async def _try(self, callback: Callback) -> None:
        headers = {
            "Content-Type": "application/json",
            "Shardwheel-Callback": text_of(callback.callback_id),
            HEADER: sign(self._secret, callback.body, callback.taken_ms // 1000),
        }
        try:
            await self._poster.post(callback.url, callback.body, headers)
        except (UnavailableError, UsageError) as error:
            await self._failed(callback, str(error))
        else:
            CALLBACKS.labels("delivered").inc()
            await self._store.callback_delivered(callback)

    async def _failed(self, callback: Callback, problem: str) -> None:
        pause = timedelta(milliseconds=wait_ms(BACKOFF, callback.tries, callback.callback_id))
        given_up = timedelta(milliseconds=callback.age_ms) + pause > self._limit
        CALLBACKS.labels("given_up" if given_up else "failed").inc()
        if given_up:
            self._log.warning(
                "callback given up",
                callback=text_of(callback.callback_id),
                host=callback.host,
                reason=problem,
            )
        await self._store.callback_failed(callback, problem[:LONGEST_PROBLEM], None if given_up else pause)
