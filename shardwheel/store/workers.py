"""Workers say that they are there, and what they have handlers for: unknown handlers are held until then."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.limits import WorkerCard
from shardwheel.store.sql import sql


def announce_worker(conn: Connection[Any], worker: WorkerCard) -> None:
    """Said every few seconds; those that fell silent long ago are struck off on the way."""
    conn.execute(sql("announce_worker"), worker._asdict() | {"tasks": list(worker.tasks)})


def withdraw_worker(conn: Connection[Any], worker_id: str) -> None:
    conn.execute(sql("withdraw_worker"), {"worker_id": worker_id})
