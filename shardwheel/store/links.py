"""The links of a pool, as its worker threads use them: take one, work in a transaction, give it back.

Nothing here knows an event loop. `Pool` waits for these threads under trio, `TenantPool` under asyncio; what
a failure means for a link, and when work is tried again, is the same for both.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import psycopg

from shardwheel.errors import UnavailableError
from shardwheel.store.call import Call
from shardwheel.store.failures import Meaning, meaning_of, one_line
from shardwheel.store.link import Connection, Link, Session, open_link
from shardwheel.store.transaction import transact

T = TypeVar("T")

# How often one call's work is repeated because two transactions met.
CONFLICT_RETRIES = 5
CONFLICT_PAUSE_S = 0.02
# After a connection was refused the next attempt waits this long; twice as long after each further one.
RECONNECT_FIRST_S = 0.02
RECONNECT_MOST_S = 0.5


class Links:
    """Idle links of one kind of session, and the way to new ones. Safe from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._idle: deque[Link] = deque()
        self._reconnect = Backoff()
        self._closed = False

    def work(self, call: Call, work: Callable[[Connection], T]) -> T:
        """Try until it is committed or can't be: again after a conflict, and once on a fresh link."""
        conflicts = 0
        fresh = False
        while True:
            link = self._fresh(call) if fresh else self._take(call)
            try:
                return transact(link, call, work)
            except psycopg.Error as error:
                meaning = meaning_of(error, closed=link.connection.closed)
                if meaning is Meaning.THEIRS:
                    raise
                if meaning is Meaning.LOST:
                    link.close()
                if meaning is Meaning.CONFLICT and conflicts < CONFLICT_RETRIES:
                    conflicts += 1
                    time.sleep(random.uniform(0, CONFLICT_PAUSE_S * conflicts))
                elif meaning is Meaning.LOST and link.served and not fresh and not call.maybe_applied:
                    fresh = True
                else:
                    message = f"PostgreSQL broke off: {one_line(error)}"
                    raise UnavailableError(message, maybe_applied=call.maybe_applied) from error
            finally:
                self._give_back(call, link)

    def drop_idle(self) -> None:
        """After a failure: idle links lead to the same frozen, dying or demoted server. Better none."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def close(self) -> None:
        """From here on no link is opened or kept."""
        self._closed = True
        self.drop_idle()

    def _take(self, call: Call) -> Link:
        """An idle link, the one used last; or a new one."""
        try:
            link = self._idle.pop()
        except IndexError:
            return self._fresh(call)
        return _attached(call, link)

    def _fresh(self, call: Call) -> Link:
        if self._closed:
            raise UnavailableError(f"pool {self._session.name} is closed")
        self._reconnect.wait()
        try:
            link = open_link(self._session)
        except psycopg.Error as error:
            self._reconnect.failed()
            raise UnavailableError(f"PostgreSQL is out of reach: {one_line(error)}") from error
        self._reconnect.succeeded()
        return _attached(call, link)

    def _give_back(self, call: Call, link: Link) -> None:
        """Keep it for the next call if it is as good as new."""
        if not call.detach() or not link.is_clean:
            link.close()
            return
        link.served = True
        self._idle.append(link)
        if self._closed:
            self.drop_idle()


def _attached(call: Call, link: Link) -> Link:
    try:
        call.attach(link)
    except BaseException:
        link.close()
        raise
    return link


class Backoff:
    """How long to wait before the next attempt to connect: not at all, or longer after each failure."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._next_at = 0.0

    def wait(self) -> None:
        time.sleep(max(0.0, self._next_at - time.monotonic()))

    def failed(self) -> None:
        self._pause_s = min(RECONNECT_MOST_S, max(RECONNECT_FIRST_S, self._pause_s * 2))
        self._next_at = time.monotonic() + self._pause_s

    def succeeded(self) -> None:
        self._pause_s = self._next_at = 0.0
