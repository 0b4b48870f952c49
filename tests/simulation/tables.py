"""What the checker looks at: the tables as they stood at one moment, wherever they were read.

The simulation reads them from the in-memory twin (`tables_of`), the tests of real processes from PostgreSQL
(tests/integration/cluster/tables.py): the rules are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from shardwheel.memory import dag_rows, hold_rows, ownership, rows
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.rows import Execution, SkipRange
from shardwheel.ports import PartitionState
from shardwheel.store.job_row import JobRow
from tests.simulation.notes import CANCELS, NOTES


class Tables(NamedTuple):
    """`jobs`: their present states. `notes`: each job as every change of it by people left it."""

    now_ms: int
    jobs: Mapping[bytes, str]
    notes: Collection[JobRow]
    cancelled: Collection[bytes]
    executions: Collection[Execution]
    skip_ranges: Collection[SkipRange]
    open_work: Collection[Any]
    partitions: Collection[PartitionState]
    paused_tasks: Collection[str] = ()
    # By job: which execution of it has the job's slot.
    overlap_slots: Mapping[bytes, bytes] = MappingProxyType({})
    # By task: the DAG that it is of.
    dag_of: Mapping[bytes, bytes] = MappingProxyType({})


def tables_of(server: MemoryPostgres) -> Tables:
    found = server.tables
    return Tables(
        int(server.now_ms()),
        {stored.row.job_id: stored.row.state for stored in found[rows.JOBS].values()},
        found[NOTES].values(),
        found[CANCELS].values(),
        found[rows.EXECUTIONS].values(),
        found[rows.SKIP_RANGES].values(),
        [work for work in found[rows.WORK_ROWS].values() if work.state == "open"],
        found[ownership.TABLE].values(),
        {row.name.task for row in found[hold_rows.TASK_TYPES].values() if row.paused},
        {slot.job_id: slot.execution_id for slot in found[hold_rows.OVERLAP_SLOTS].values()},
        {task.task_id: task.dag_id for task in found[dag_rows.DAG_TASKS].values()},
    )
