"""A rig for tests of the gate: jobs by plain SQL, messages as a shard would send them."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg

from shardwheel.execution import Claimant, Claimed, ClaimReply
from shardwheel.ids import fire_id, new_job_id
from shardwheel.store.arrays import Uuid
from shardwheel.store.claim import claim
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome, Result

NOON_MS = 1_795_003_200_000  # some noon in November 2026
Connection = psycopg.Connection[Any]


class Gate:
    """One database, one job; connections of one's own for each party of an interleaving."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.job_id = self.add_job()

    def close(self) -> None:
        self.conn.close()

    def connect(self) -> Connection:
        return psycopg.connect(self.dsn)

    def add_job(self, **columns: Any) -> bytes:
        job_id = new_job_id(NOON_MS)
        self.conn.execute(
            """INSERT INTO shardwheel.jobs (job_id, tenant_id, partition, task, schedule)
               VALUES (%s, 't', 7, 'work', '{"every_ms":1000}')""",
            [Uuid(job_id)],
        )
        self.update(job_id, **columns)
        return job_id

    def update(self, job_id: bytes, **columns: Any) -> None:
        for name, value in columns.items():
            statement = psycopg.sql.SQL("UPDATE shardwheel.jobs SET {} = %s WHERE job_id = %s")
            self.conn.execute(statement.format(psycopg.sql.Identifier(name)), [value, Uuid(job_id)])

    def schedule_no(self, job_id: bytes | None = None) -> int:
        row = self.conn.execute(
            "SELECT schedule_no FROM shardwheel.jobs WHERE job_id = %s", [Uuid(job_id or self.job_id)]
        ).fetchone()
        assert row is not None
        return int(row[0])

    def fire(self, at_ms: int = NOON_MS, *, job_id: bytes | None = None, **fields: Any) -> Fire:
        job = job_id or self.job_id
        values: dict[str, Any] = {
            "version": FORMAT_VERSION,
            "kind": FireKind.FIRE,
            "execution_id": fire_id(job, 7, at_ms),
            "job_id": job,
            "partition": 7,
            "scheduled_ms": at_ms,
            "due_ms": at_ms,
            "attempt": 1,
        } | fields
        values.setdefault("schedule_no", self.schedule_no(job))
        return Fire(**values)

    def claim(self, *fires: Fire, **claimant: Any) -> ClaimReply:
        return claim_on(self.conn, *fires, **claimant)

    def waiting(self, at_ms: int, **columns: Any) -> Fire:
        """Store a waiting execution and return the message that its owner would publish."""
        fire = self.fire(at_ms, schedule_no=0, attempt=columns.get("attempt", 1))
        values = {"origin": "schedule", "state": "queued", "attempt": 1, "failures": 0} | columns
        self.conn.execute(
            """INSERT INTO shardwheel.executions (execution_id, tenant_id, partition, job_id, kind, origin,
                                                  state, scheduled_at, due_at, attempt, failures)
               VALUES (%(id)s, 't', 7, %(job)s, 0, %(origin)s, %(state)s,
                       shardwheel.at(%(at)s), shardwheel.at(%(at)s), %(attempt)s, %(failures)s)""",
            values | {"id": Uuid(fire.execution_id), "job": Uuid(self.job_id), "at": at_ms},
        )
        return fire

    def row(self, fire: Fire | Claimed) -> dict[str, Any] | None:
        cursor = self.conn.cursor(row_factory=psycopg.rows.dict_row)
        return cursor.execute(
            "SELECT * FROM shardwheel.executions WHERE execution_id = %s", [Uuid(fire.execution_id)]
        ).fetchone()

    def state(self, fire: Fire | Claimed) -> tuple[str, str | None, int] | None:
        row = self.row(fire)
        return None if row is None else (row["state"], row["reason"], row["attempt"])

    def settle(self, *results: Result) -> dict[str, int]:
        with self.conn.transaction():
            return settle(self.conn, results).by_state


def claim_on(conn: Connection, *fires: Fire, **claimant: Any) -> ClaimReply:
    values = {
        "worker": "w",
        "pool": "short",
        "tasks": frozenset({"work"}),
        "token": uuid.uuid4().bytes,
    } | claimant
    return claim(conn, [(fire, 2) for fire in fires], Claimant(**values))


def result_of(claimed: Claimed, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> Result:
    values: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "execution_id": claimed.execution_id,
        "job_id": claimed.job_id,
        "partition": claimed.partition,
        "attempt": claimed.attempt,
        "claim_token": claimed.claim_token,
        "outcome": outcome,
        "started_ms": NOON_MS,
        "ended_ms": NOON_MS + 40,
        "worker": "w",
    } | fields
    return Result(**values)
