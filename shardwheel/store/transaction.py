"""One transaction on one link: do the work, commit, know what became of it.

COMMIT has more outcomes than two. Its answer may be lost (the outcome is open). It may "succeed" although
the transaction had failed before and was rolled back, when the work swallowed an error. And it may succeed
with a warning: somebody cancelled the wait for the synchronous standby, so it is committed here but would
be lost with this machine. Only a commit without any of these is reported as done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus

from shardwheel.errors import UnavailableError
from shardwheel.store.call import Call
from shardwheel.store.failures import Meaning, meaning_of
from shardwheel.store.link import Connection, Link

T = TypeVar("T")


def transact(link: Link, call: Call, work: Callable[[Connection], T]) -> T:
    """Run the work and commit, or roll back and raise what went wrong."""
    try:
        result = work(link.connection)
        _commit(link.connection, call)
    except BaseException:
        with suppress(psycopg.Error):
            link.connection.rollback()
        raise
    return result


def _commit(connection: Connection, call: Call) -> None:
    if connection.info.transaction_status is TransactionStatus.INERROR:
        raise RuntimeError("a statement failed and the work went on: its transaction can't be committed")
    with _warnings(connection) as warnings:
        call.begin_commit()
        try:
            connection.commit()
        except psycopg.Error as error:
            if meaning_of(error, closed=connection.closed) is not Meaning.LOST:
                call.commit_failed()
            raise
    if warnings:
        raise UnavailableError(f"committed in doubt: {warnings[0]}", maybe_applied=True)


@contextmanager
def _warnings(connection: Connection) -> Iterator[list[str]]:
    heard: list[str] = []

    def hear(diagnostic: Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            heard.append(diagnostic.message_primary or "")

    connection.add_notice_handler(hear)
    try:
        yield heard
    finally:
        connection.remove_notice_handler(hear)
