"""Many runs of one diamond on a real PostgreSQL, and connections that end their tasks at the same moment."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from shardwheel.execution import Claimant, Claimed
from shardwheel.ids import fire_id
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.claim import claim as claim_batch
from shardwheel.store.jobs import create_jobs, get_job
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome
from tests.contract.dag_scene import Dag, Shape, plant_rows
from tests.integration.store.gate import result_of

DIAMOND = Shape({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}, policy="continue")
Connection = psycopg.Connection[Any]
# What one party of a race does, on a connection of its own.
Party = Callable[[Connection, threading.Barrier], None]


class Race:
    """Many runs of one diamond, whose b and c run."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)
        with self.conn.transaction():
            self.dag = self.plant()

    def plant(self) -> Dag:
        posting = parse_posting({"task": "work", "every": "1h"})
        dag_id, *tasks = create_jobs(self.conn, "t", [posting, *[parse_posting({"task": "work"})] * 4])
        dag = Dag(get_job(self.conn, "t", dag_id), dict(zip(DIAMOND.parents, tasks, strict=True)))
        plant_rows(self.conn, dag, DIAMOND)
        return dag

    def start(self, runs: int) -> list[tuple[Claimed, Claimed]]:
        """The b and c of each run, in the order of their runs."""
        job = self.dag.job
        times = [job.effective_from_ms + number * 3_600_000 for number in range(runs)]
        ids = [fire_id(job.job_id, job.partition, at_ms) for at_ms in times]
        fires = [
            self.fire(one, job.job_id, at_ms, job.schedule_no) for one, at_ms in zip(ids, times, strict=True)
        ]
        # A DAG's own fire is nobody's to run; a job that is the root is a itself.
        first = self.claim(fires) or self.claim(self.waiting())
        with self.conn.transaction():
            settle(self.conn, [result_of(one, dag_run_id=one.dag_run_id) for one in first])
        pairs: dict[bytes, dict[str, Claimed]] = {}
        for one in self.claim(self.waiting()):
            pairs.setdefault(one.dag_run_id, {})[self.dag.keys[one.job_id]] = one
        return [(pair["b"], pair["c"]) for _, pair in sorted(pairs.items())]

    def claim(self, fires: Sequence[Fire]) -> list[Claimed]:
        with self.conn.transaction():
            return self.claim_on(self.conn, fires)

    def claim_on(self, conn: Connection, fires: Sequence[Fire]) -> list[Claimed]:
        claimant = Claimant("w", "short", frozenset({"work"}), uuid.uuid4().bytes)
        return claim_batch(conn, [(fire, 2) for fire in fires], claimant).claimed

    def waiting(self) -> list[Fire]:
        rows = self.conn.execute(
            "SELECT execution_id, job_id, scheduled_ms, attempt FROM shardwheel.waiting_entries"
        )
        return [
            self.fire(execution_id, job_id, at_ms, 0, attempt)
            for execution_id, job_id, at_ms, attempt in rows
        ]

    def fire(
        self, execution_id: bytes, job_id: bytes, at_ms: int, schedule_no: int, attempt: int = 1
    ) -> Fire:
        head = (FORMAT_VERSION, FireKind.FIRE, execution_id, job_id, self.dag.job.partition)
        return Fire(*head, schedule_no, at_ms, at_ms, attempt)

    def at_once(self, *works: Party) -> None:
        """Each on a connection of its own; the barrier lets them meet before each step."""
        barrier = threading.Barrier(len(works), timeout=60)

        def work(one: Party) -> None:
            with psycopg.connect(self.dsn, autocommit=True) as conn:
                one(conn, barrier)

        with ThreadPoolExecutor(len(works)) as threads:
            for future in [threads.submit(work, one) for one in works]:
                future.result()

    def joined(self) -> list[tuple[str, int]]:
        """The states of d, with how many runs have it so."""
        return self.conn.execute(
            "SELECT coalesce(x.reason, x.state), count(*)::int FROM shardwheel.executions AS x"
            " WHERE x.job_id = %s GROUP BY 1 ORDER BY 1",
            [Uuid(self.dag.tasks["d"])],
        ).fetchall()


def told(one: Claimed, outcome: Outcome = Outcome.SUCCEEDED) -> Any:
    return result_of(one, outcome, dag_run_id=one.dag_run_id)
