"""DAG runs as rows: lock them first, count in memory, store what was counted.

Every end of a task, and whatever people do to a run, locks the run's row before anything else of it. So
what is read after that holds until the transaction ends, and a run's figures can be added up here instead
of in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from shardwheel.dag_run import FAILED_FAST, Edge, TaskStand, Totals
from shardwheel.ids import TASK, execution_id
from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuid, Uuids
from shardwheel.store.sql import is_few, sql


@dataclass
class Run:
    """A locked run. `of_dag`: a DAG's, which has an execution of its own; that of a job with children is its
    first task."""

    run_id: bytes
    tenant_id: str
    partition: int
    dag_id: bytes
    version: int
    state: str
    reason: str
    scheduled_ms: int
    sla_ms: int | None
    unfinished: int
    succeeded: int
    failed: int
    skipped: int
    rounds: int
    policy: str
    max_retries: int
    backoff: bytes
    of_dag: bool

    @property
    def is_over(self) -> bool:
        return self.state != "running" and not self.unfinished

    @property
    def goes_on(self) -> bool:
        """Whether anything more of it may begin."""
        return self.state == "running" and self.reason != FAILED_FAST

    @property
    def has_round(self) -> bool:
        """Whether its policy lets failed tasks run once more."""
        return self.policy == "retry" and self.failed > 0 and self.rounds < self.max_retries

    @property
    def totals(self) -> Totals:
        return Totals(self.unfinished, self.succeeded, self.failed, self.skipped)

    def take_totals(self, totals: Totals) -> None:
        self.unfinished, self.succeeded, self.failed, self.skipped = totals

    def count(self, state: str) -> None:
        """One more task is over."""
        self.unfinished -= 1
        self.succeeded += state in ("succeeded", "force_completed")
        self.failed += state in ("dead", "cancelled")
        self.skipped += state == "skipped"

    def execution_of(self, task_id: bytes, item_no: int | None = None) -> bytes:
        if task_id == self.dag_id:
            return self.run_id
        cause = self.run_id if item_no is None else self.run_id + item_no.to_bytes(4, "big")
        return execution_id(TASK, task_id, self.partition, self.scheduled_ms, cause)


def lock_runs(conn: Connection[Any], run_ids: Iterable[bytes]) -> dict[bytes, Run]:
    """The runs, held until the transaction ends; in key order, so that nobody waits in a circle."""
    ids = sorted(set(run_ids))
    rows = conn.execute(sql("dag_lock_runs"), {"run_ids": Uuids(ids)}, binary=True, prepare=is_few(len(ids)))
    return {row[0]: Run(*row) for row in rows}


def store_runs(conn: Connection[Any], runs: Sequence[Run]) -> None:
    parameters = {
        "run_ids": Uuids([run.run_id for run in runs]),
        "states": Texts([run.state for run in runs]),
        "reasons": Texts([run.reason for run in runs]),
        "unfinished": Bigints([run.unfinished for run in runs]),
        "succeeded": Bigints([run.succeeded for run in runs]),
        "failed": Bigints([run.failed for run in runs]),
        "skipped": Bigints([run.skipped for run in runs]),
        "rounds": Bigints([run.rounds for run in runs]),
        "over": Booleans(run.is_over for run in runs),
    }
    conn.execute(sql("dag_store_runs"), parameters, prepare=is_few(len(runs)))


def tasks_of(conn: Connection[Any], run: Run) -> dict[bytes, TaskStand]:
    """How all its tasks stand."""
    given = {"run_id": Uuid(run.run_id), "dag_id": Uuid(run.dag_id), "version": run.version}
    return {row[0]: TaskStand._make(row) for row in conn.execute(sql("dag_tasks_of_run"), given)}


def edges_of(conn: Connection[Any], run: Run) -> list[Edge]:
    given = {"dag_id": Uuid(run.dag_id), "version": run.version}
    return [Edge._make(row) for row in conn.execute(sql("dag_edges_of_version"), given)]
