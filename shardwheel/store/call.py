"""What the waiting task and the worker thread of one call agree on: who was first?

The task may give up at any moment (its limit passed, it was cancelled) while the thread is at any point of
its transaction. Whether something may have been applied depends on one thing alone: was COMMIT sent? So
both pass through one lock. Either the task gives up first, then the thread never sends COMMIT; or the
thread begins its commit first, then the task knows that the outcome is open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import trio

from shardwheel.errors import UnavailableError
from shardwheel.store.link import Link

T = TypeVar("T")


class GivenUpError(UnavailableError):
    """Given up before COMMIT was sent. Raised in the worker thread, where mostly nobody waits any more."""

    def __init__(self) -> None:
        super().__init__("the call was given up: its time was over, or its pool was closed")


class Call:
    """One call, or one stream of them, on one link at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._given_up = False
        self._commit_sent = False

    @property
    def maybe_applied(self) -> bool:
        """COMMIT was sent, and no answer said that it failed."""
        return self._commit_sent

    async def in_thread(self, work: Callable[[], T], *, limit_s: float, places: trio.CapacityLimiter) -> T:
        """Wait for the work, at most so long; the wait for a free place counts."""
        with trio.move_on_after(limit_s):
            try:
                return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=places)
            except trio.Cancelled:
                self.give_up()
                raise
        raise UnavailableError(
            f"PostgreSQL did not answer within {limit_s:g} s", maybe_applied=self.maybe_applied
        )

    def attach(self, link: Link) -> None:
        """From here on giving up cuts this link."""
        with self._lock:
            self._go_on()
            self._link = link

    def detach(self) -> bool:
        """Giving up must not cut what others will use. False: it did already, the link is no more good."""
        with self._lock:
            self._link = None
            return not self._given_up

    def begin_commit(self) -> None:
        with self._lock:
            self._go_on()
            self._commit_sent = True

    def commit_failed(self) -> None:
        """The server answered that the transaction was not committed."""
        self._commit_sent = False

    def give_up(self) -> None:
        """Wait no more; a thread that is at work finds its link cut and ends by itself."""
        with self._lock:
            self._given_up = True
            if self._link is not None:
                self._link.cut()

    def _go_on(self) -> None:
        if self._given_up:
            raise GivenUpError
