"""The rows of DAGs in memory: versions, tasks and edges; runs, counters and fan-outs."""

from __future__ import annotations

from typing import NamedTuple

DAG_VERSIONS = "dag_versions"
DAG_TASKS = "dag_tasks"
DAG_EDGES = "dag_edges"
DAG_RUNS = "dag_runs"
DAG_COUNTERS = "dag_counters"
DAG_FANS = "dag_fans"
DAG_PUT_OFF = "dag_put_off"
DAG_TABLES = (DAG_VERSIONS, DAG_TASKS, DAG_EDGES, DAG_RUNS, DAG_COUNTERS, DAG_FANS, DAG_PUT_OFF)


class DagVersion(NamedTuple):
    """By (dag_id, version)."""

    dag_id: bytes
    version: int
    policy: str = "fail_fast"
    sla_ms: int | None = None
    max_retries: int | None = None
    backoff: str | None = None


class DagTask(NamedTuple):
    """By (dag_id, version, task_id)."""

    dag_id: bytes
    version: int
    task_id: bytes
    task_key: str
    fan_out: bool
    in_degree: int


class DagEdge(NamedTuple):
    """By itself."""

    dag_id: bytes
    version: int
    child_id: bytes
    parent_id: bytes


class DagRun(NamedTuple):
    dag_run_id: bytes
    tenant_id: str
    partition: int
    dag_id: bytes
    version: int
    origin: str
    scheduled_ms: int
    sla_ms: int | None
    unfinished: int
    params: str | None = None
    state: str = "running"
    reason: str = ""
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    rounds: int = 0
    ended_ms: float | None = None


class DagCounter(NamedTuple):
    """By (dag_run_id, child_id)."""

    dag_run_id: bytes
    child_id: bytes
    pending: int
    failed: int
    skipped: int


class DagFan(NamedTuple):
    """By (dag_run_id, task_id)."""

    dag_run_id: bytes
    task_id: bytes
    items: int
    open_items: int
    failed_items: int = 0
    skipped_items: int = 0


class DagPutOff(NamedTuple):
    """By its first three."""

    dag_run_id: bytes
    task_id: bytes
    item_no: int
    partition: int
    state: str
    reason: str | None
    put_off_ms: float

    @property
    def key(self) -> tuple[bytes, bytes, int]:
        return self[:3]
