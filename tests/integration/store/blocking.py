"""Forced interleavings: a statement on a second connection that certainly waits for a lock by now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

Connection = psycopg.Connection[Any]
Answer = TypeVar("Answer")

# Only a broken test or a dead machine gets that far.
LIMIT_S = 50


@contextmanager
def blocked(dsn: str, work: Callable[[Connection], Answer]) -> Iterator[Future[Answer]]:
    """Start `work` on its own connection, in a thread; enter the block once it waits for somebody's lock.

    The block ends when `work` has: let go of the lock in it. (Else the lock time-out ends it.)
    """
    with (
        psycopg.connect(dsn, autocommit=True, options=f"-c lock_timeout={LIMIT_S}s") as connection,
        psycopg.connect(dsn, autocommit=True) as observer,
        ThreadPoolExecutor(1) as thread,
    ):
        future = thread.submit(work, connection)
        _wait_until_blocked(observer, connection.info.backend_pid, future)
        yield future


def _wait_until_blocked(observer: Connection, pid: int, future: Future[Any]) -> None:
    give_up_at_s = time.monotonic() + LIMIT_S
    while not _is_blocked(observer, pid):
        assert not future.done(), f"it did not wait for a lock: {future}"
        assert time.monotonic() < give_up_at_s, "it neither ends nor waits for a lock"
        time.sleep(0.01)


def _is_blocked(observer: Connection, pid: int) -> bool:
    row = observer.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid]).fetchone()
    return row is not None and bool(row[0])
