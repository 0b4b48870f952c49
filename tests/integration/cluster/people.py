"""People at a real cluster: they make jobs, and change their minds while everything else goes wrong.

Each change is noted in its own transaction, as in the simulation. Nothing here is a thread: a test lets them
act whenever it waits. Now and then somebody takes their time between a change and its commit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from shardwheel.errors import UsageError
from shardwheel.ids import fire_id
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.jobs import create_jobs, delete_job, edit_job, get_job, pause_job, resume_job
from shardwheel.store.requests import cancel_execution, trigger_job

Connection = psycopg.Connection[Any]

TENANT = "default"
STEADY = 24
PACE_S = 0.3
# Whatever was missed is caught up whole.
PATIENT = {"misfire": "fire_all", "misfire_grace_s": 3600}


class People:
    """`connect` opens a connection that commits by itself outside of transactions."""

    def __init__(self, connect: Callable[[], Connection], runs: Path, seed: int = 0) -> None:
        self._connect = connect
        self._runs = runs
        self._random = random.Random(seed)
        self._next_at = 0.0
        self._taking_time: _Pending | None = None

    def move_in(self) -> None:
        """The jobs that there are from the beginning, spread over the partitions."""
        r = self._random
        with self._connect() as conn:
            for number in range(STEADY):
                jitter = {"jitter_s": 0.2} if number % 5 == 0 else {}
                task = "flaky" if number % 8 == 0 else "steady"
                self._create(conn, task, every=f"{r.choice([200, 250, 300, 400, 500])}ms", **jitter)
            for _ in range(4):
                self._create(conn, "steady", cron="* * * * * *")
            for seconds in range(0, 240, 12):
                self._create(conn, "steady", run_at=datetime.now(UTC) + timedelta(seconds=seconds))

    def act(self) -> None:
        """Something new, if it is time for that."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + PACE_S
        if self._taking_time is not None and self._taking_time.is_over:
            self.settle()
        wish = self._random.choice(self._wishes)
        conn = self._connect()
        conn.autocommit = False
        # A shard that stands still may hold a job's row: then they want something else.
        conn.execute("SET LOCAL lock_timeout = '1s'")
        try:
            with suppress(UsageError, psycopg.errors.LockNotAvailable):
                job_id = self._random.choice(self._free_jobs(conn))
                wish(conn, job_id)
                self._commit_some_time(conn, job_id)
        finally:
            if self._taking_time is None or self._taking_time.conn is not conn:
                conn.close()

    def settle(self) -> None:
        """Whoever takes their time commits now."""
        if self._taking_time is not None:
            self._taking_time.conn.commit()
            self._taking_time.conn.close()
            self._taking_time = None

    def _commit_some_time(self, conn: Connection, job_id: bytes) -> None:
        if self._taking_time is None and self._random.random() < 0.1:
            self._taking_time = _Pending(conn, job_id, time.monotonic() + self._random.uniform(0.5, 3))
        else:
            conn.commit()

    def _free_jobs(self, conn: Connection) -> list[bytes]:
        """The row of one whose change is not committed would be waited for."""
        taken = None if self._taking_time is None else self._taking_time.job_id
        there = conn.execute(
            "SELECT uuid_send(job_id) FROM shardwheel.jobs WHERE state <> 'deleted' ORDER BY 1"
        )
        return [job_id for (job_id,) in there if job_id != taken]

    # --- wishes --------------------------------------------------------------------------------------

    @property
    def _wishes(self) -> list[Callable[[Connection, bytes], None]]:
        common = [self._edit, self._edit, self._tags, self._pause, self._resume, self._resume]
        return [*common, self._resume, self._trigger, self._cancel, self._replace]

    def _create(self, conn: Connection, task: str, **timing: Any) -> None:
        posting = {"task": task, "params": {"runs": str(self._runs)}, "max_retries": 5} | PATIENT | timing
        with conn.transaction():
            (job_id,) = create_jobs(conn, TENANT, [parse_posting(posting)])
            _note(conn, job_id)

    def _edit(self, conn: Connection, job_id: bytes) -> None:
        edit_job(conn, TENANT, job_id, {"every": self._random.choice([0.2, 0.25, 0.3, 0.4, 0.5])})
        _note(conn, job_id)

    def _tags(self, conn: Connection, job_id: bytes) -> None:
        edit_job(conn, TENANT, job_id, {"tags": [str(self._random.random())]})
        _note(conn, job_id)

    def _pause(self, conn: Connection, job_id: bytes) -> None:
        pause_job(conn, TENANT, job_id)
        _note(conn, job_id)

    def _resume(self, conn: Connection, job_id: bytes) -> None:
        resume_job(conn, TENANT, job_id)
        _note(conn, job_id)

    def _replace(self, conn: Connection, job_id: bytes) -> None:
        """Delete it, and make another one, so that there is always something to fire."""
        delete_job(conn, TENANT, job_id)
        _note(conn, job_id)
        self._create(conn, "steady", every="250ms")

    def _trigger(self, conn: Connection, job_id: bytes) -> None:
        trigger_job(conn, TENANT, job_id, self._random.randbytes(16))

    def _cancel(self, conn: Connection, job_id: bytes) -> None:
        """A time that is about to come, or has just been."""
        job = get_job(conn, TENANT, job_id)
        now = datetime.now(UTC) + timedelta(seconds=self._random.uniform(-1, 2))
        next_ms = job.timing.next_after(int(now.timestamp() * 1000))
        if next_ms is not None:
            execution_id = fire_id(job_id, job.partition, next_ms)
            cancel_execution(conn, TENANT, execution_id, job_id)
            conn.execute(
                "INSERT INTO planted.cancels VALUES (%s) ON CONFLICT DO NOTHING", [Uuid(execution_id)]
            )


class _Pending:
    """A change that is made and not committed."""

    def __init__(self, conn: Connection, job_id: bytes, until: float) -> None:
        self.conn = conn
        self.job_id = job_id
        self._until = until

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until


def _note(conn: Connection, job_id: bytes) -> None:
    row = get_job(conn, TENANT, job_id)
    conn.execute(
        "INSERT INTO planted.notes VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        [Uuid(job_id), row.version, msgspec.msgpack.encode(row)],
    )
