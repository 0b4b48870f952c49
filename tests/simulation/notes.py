"""What people did, noted in tables of the same database, in the same transaction: what a fail-over loses, it
loses together with the note, so the notes are exactly the deeds that hold."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from psycopg import Connection

from shardwheel.memory.connection import MemoryConnection
from shardwheel.memory.transaction import Transaction
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import get_job

TENANT = "t"
# What people changed, what they cancelled, and what they did to DAG runs.
NOTES = "notes"
CANCELS = "cancels"
HANDS = "hands"
NOTE_TABLES = (NOTES, CANCELS, HANDS)


class HandNote(NamedTuple):
    """Somebody's hand on a run, and what a task became by it; a key of "" is the whole run. In order of
    `xid`: each locks the run before it writes anything."""

    run_id: bytes
    xid: int
    key: str
    became: str


def transaction_of(conn: Connection[Any]) -> Transaction:
    return cast(MemoryConnection, conn).transaction


def note_job(conn: Connection[Any], job_id: bytes) -> None:
    row: JobRow = get_job(conn, TENANT, job_id)
    transaction_of(conn).put(NOTES, (job_id, row.version), row)


def note_cancel(conn: Connection[Any], execution_id: bytes) -> None:
    transaction_of(conn).put(CANCELS, execution_id, execution_id)


def note_hand(conn: Connection[Any], run_id: bytes, key: str, became: str) -> None:
    transaction = transaction_of(conn)
    note = HandNote(run_id, transaction.xid, key, became)
    transaction.put(HANDS, note, note)
