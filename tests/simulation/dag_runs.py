"""A DAG's run as the tables show it: what the umpire looks at after each commit, and the checker at the end.

It has words of its own for how tasks stand, and takes nothing from the code that it judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shardwheel.execution import TERMINAL_STATES
from shardwheel.memory import rows
from shardwheel.memory.dag_rows import (
    DAG_COUNTERS,
    DAG_EDGES,
    DAG_FANS,
    DAG_PUT_OFF,
    DAG_RUNS,
    DAG_TASKS,
    DAG_VERSIONS,
    DagCounter,
    DagFan,
    DagRun,
    DagTask,
)
from shardwheel.memory.rows import Execution

Written = Mapping[str, Mapping[Any, Any]]

SATISFIED = frozenset({"succeeded", "force_completed", "skipped_by_hand"})
FAILED = frozenset({"dead", "cancelled", "upstream_failed", "run_failed"})
DONE = frozenset({"succeeded", "force_completed"})
DIED = frozenset({"dead", "cancelled"})
WAITS_AGAIN = "pending_again"


def word_of(row: Execution | None) -> str:
    """How a task stands: the reason of what was skipped (stopped: with its run), else its state; "" of one
    that has yet to begin."""
    if row is None or row.reason == WAITS_AGAIN:
        return ""
    if row.state == "skipped":
        return "stopped" if row.reason == "cancelled" else row.reason or "skipped"
    return row.state if row.state in TERMINAL_STATES else "open"


def is_over(word: str) -> bool:
    return word not in ("", "open")


class SeenRun(NamedTuple):
    """By task: what it says, its parents, its row and its items' rows. `untold`: (task, item) that are over,
    while the run has not been told; as far as it is concerned, they are not."""

    run: DagRun
    policy: str
    fire: Execution | None
    tasks: dict[bytes, DagTask]
    parents: dict[bytes, list[bytes]]
    rows: dict[bytes, Execution]
    items: dict[bytes, list[Execution]]
    counters: dict[bytes, DagCounter]
    fans: dict[bytes, DagFan]
    untold: set[tuple[bytes, int | None]]

    @property
    def words(self) -> dict[bytes, str]:
        return {task_id: self.word(task_id, self.rows.get(task_id)) for task_id in self.tasks}

    def word(self, task_id: bytes, row: Execution | None) -> str:
        is_untold = row is not None and (task_id, row.item_no) in self.untold
        return "open" if is_untold else word_of(row)

    @property
    def under_way(self) -> list[Execution]:
        """What waits, is held, is run by a worker, or is to be told."""
        every = [*self.rows.values(), *(item for items in self.items.values() for item in items)]
        return [
            row
            for row in every
            if (row.state in rows.UNFINISHED and (row.state != "running" or row.lease_until_ms is not None))
            or (row.job_id, row.item_no) in self.untold
        ]


def seen_run(tables: Written, run_id: bytes) -> SeenRun:
    run: DagRun = tables[DAG_RUNS][run_id]
    version = (run.dag_id, run.version)
    tasks = {one.task_id: one for one in tables[DAG_TASKS].values() if (one.dag_id, one.version) == version}
    parents: dict[bytes, list[bytes]] = {task_id: [] for task_id in tasks}
    for edge in tables[DAG_EDGES].values():
        if (edge.dag_id, edge.version) == version:
            parents[edge.child_id].append(edge.parent_id)
    own: dict[bytes, Execution] = {}
    items: dict[bytes, list[Execution]] = {}
    for row in tables[rows.EXECUTIONS].values():
        if row.dag_run_id == run_id and row.item_no is None:
            own[row.job_id] = row
        elif row.dag_run_id == run_id:
            items.setdefault(row.job_id, []).append(row)
    return SeenRun(
        run,
        tables[DAG_VERSIONS][version].policy,
        tables[rows.EXECUTIONS].get(run_id),
        tasks,
        parents,
        own,
        items,
        {key[1]: counter for key, counter in tables[DAG_COUNTERS].items() if key[0] == run_id},
        {key[1]: fan for key, fan in tables[DAG_FANS].items() if key[0] == run_id},
        {(key[1], None if key[2] < 0 else key[2]) for key in tables[DAG_PUT_OFF] if key[0] == run_id},
    )
