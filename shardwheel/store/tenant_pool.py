"""The API's way to PostgreSQL, under asyncio: every transaction belongs to one tenant.

    await pool.run("acme", get_job, job_id)       # get_job(connection, "acme", job_id), committed

Each session is the role shardwheel_api, and each transaction begins by naming its tenant: row-level security
then hides everyone else's rows, whatever the statement says. `Pool` is the same under trio, without tenants.
Too many at once are refused before they wait: an overloaded server is not helped by a longer queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import psycopg

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.store.call import Call
from shardwheel.store.link import Connection, Session
from shardwheel.store.links import Links
from shardwheel.store.sql import sql

P = ParamSpec("P")
T = TypeVar("T")

ROLE = "shardwheel_api"
# So many calls wait for each connection at most.
WAITING_PER_LINK = 64


class TenantPool:
    """At most `size` connections, a thread each. Belongs to the event loop that calls it."""

    def __init__(self, dsn: str, *, name: str, size: int, limit_s: float = 10.0) -> None:
        self.limit_s = limit_s
        self._links = Links(Session(dsn, name, ROLE, limit_s))
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=f"postgres-{name}")
        self._most = size * WAITING_PER_LINK
        self._calls: set[Call] = set()
        self._closed = False

    async def run(
        self,
        tenant_id: str,
        fn: Callable[Concatenate[Connection, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call `fn(connection, tenant_id, …)` in a transaction of that tenant; its result, once committed."""

        def work(connection: Connection) -> T:
            connection.execute(sql("set_tenant"), {"tenant_id": tenant_id})
            try:
                return fn(connection, tenant_id, *args, **kwargs)
            except psycopg.DataError as error:
                # A value passed every check of ours and is still none for PostgreSQL: it came from outside.
                raise UsageError(
                    f"a value can't be stored: {error.diag.message_primary or error}; choose another"
                ) from error

        if self._closed:
            raise UnavailableError("this process is stopping")
        if len(self._calls) >= self._most:
            raise UnavailableError("too many requests wait for PostgreSQL; try again in a moment")
        call = Call()
        self._calls.add(call)
        try:
            return await self._wait(call, partial(self._links.work, call, work))
        except UnavailableError:
            self._links.drop_idle()
            raise
        finally:
            self._calls.discard(call)

    async def _wait(self, call: Call, threaded: Callable[[], T]) -> T:
        """At most `limit_s`, the wait for a free thread included; then the link is cut under the thread."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, threaded)
        try:
            done, _ = await asyncio.wait([future], timeout=self.limit_s)
        except asyncio.CancelledError:
            _abandon(call, future)
            raise
        if not done:
            _abandon(call, future)
            raise UnavailableError(
                f"PostgreSQL did not answer within {self.limit_s:g} s", maybe_applied=call.maybe_applied
            )
        return future.result()

    def close(self) -> None:
        """Give up what is under way, and let the threads end."""
        self._closed = True
        self._links.close()
        for call in self._calls:
            call.give_up()
        self._threads.shutdown(wait=True, cancel_futures=True)


def _abandon(call: Call, future: asyncio.Future[T]) -> None:
    """Its thread ends by itself, with an error that nobody waits for."""
    call.give_up()
    future.cancel()
