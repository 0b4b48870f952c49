"""DAGs and their runs as rows have them, and as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shardwheel.dag import DAG_TIMING_FIELDS, EXECUTION_FIELDS
from shardwheel.ids import text_of
from shardwheel.output import shown_duration, shown_time
from shardwheel.store.job_row import JobRow

# What a DAG says as a job does, apart from its timing.
_OF_JOB = (
    *("name", "tags", "priority", "pool", "max_retries", "backoff"),
    *("misfire", "misfire_grace_s", "catchup_window", "overlap", "not_after_s"),
)
RUN_IS_OVER = frozenset({"succeeded", "failed", "partial", "cancelled"})
UPSTREAM = frozenset({"upstream_failed", "upstream_skipped"})
PENDING_AGAIN = "pending_again"


class DagRow(NamedTuple):
    """A DAG with one of its versions. `definition` is as posted; a list leaves out its tasks."""

    job: JobRow
    version: int
    policy: str
    sla_ms: int | None
    definition: dict[str, Any]
    task_count: int

    def as_read(self, now_ms: int) -> dict[str, Any]:
        job = self.job
        following_ms = job.timing.next_after(max(now_ms, job.effective_from_ms) - 1)
        posted = job.posted()
        posted["catchup_window"] = shown_duration(posted["catchup_window"])
        return {
            "id": text_of(job.job_id),
            "name": job.name,
            "state": job.state,
            "version": self.version,
            "policy": self.policy,
            "sla_s": None if self.sla_ms is None else self.sla_ms / 1000,
            **self._timing_as_read(),
            "next_at": _time(following_ms if job.state == "active" else None),
            **{name: posted[name] for name in _OF_JOB},
            "partition": job.partition,
            "created_at": shown_time(job.created_ms),
            "task_count": self.task_count,
        }

    def _timing_as_read(self) -> dict[str, Any]:
        """As posted; times as all times are read."""
        times = {"run_at": self.job.anchor_ms, "start_at": self.job.start_ms, "end_at": self.job.end_ms}
        return {
            name: _time(times[name]) if name in times else self.definition[name]
            for name in self.definition
            if name in DAG_TIMING_FIELDS
        }


def task_as_read(task: Mapping[str, Any], task_id: bytes) -> dict[str, Any]:
    """A task of a definition, as posted, with its job's id."""
    said = {name: task[name] for name in task if name in EXECUTION_FIELDS}
    return {
        "id": text_of(task_id),
        "key": task["key"],
        "task": task["task"],
        "params": task.get("params", {}),
        "depends_on": task.get("depends_on", []),
        "fan_out": task.get("fan_out", False),
    } | said


class RunRow(NamedTuple):
    """A run of a DAG. One that has not begun has no version yet: it gets the latest when it does."""

    dag_run_id: bytes
    dag_id: bytes
    version: int | None
    state: str
    reason: str | None
    origin: str
    scheduled_ms: int
    started_ms: int | None
    ended_ms: int | None
    sla_ms: int | None
    unfinished: int | None
    succeeded: int
    failed: int
    skipped: int
    rounds: int
    # What its trigger gave; of a page's runs it is not read.
    params: dict[str, Any] | None = None

    def as_read(self) -> dict[str, Any]:
        return {
            "id": text_of(self.dag_run_id),
            "dag_id": text_of(self.dag_id),
            "version": self.version,
            "state": self.state,
            "reason": self.reason or None,
            "origin": self.origin,
            "scheduled_at": shown_time(self.scheduled_ms),
            "started_at": _time(self.started_ms),
            "ended_at": _time(self.ended_ms),
            "sla_at": _time(self.sla_ms),
            "sla_met": self._sla_met(),
            "unfinished": self.unfinished,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "skipped": self.skipped,
            "rounds": self.rounds,
        }

    def _sla_met(self) -> bool | None:
        """None: it has none, or is still at it."""
        if self.sla_ms is None or self.ended_ms is None:
            return None
        return self.ended_ms <= self.sla_ms


class RunTaskRow(NamedTuple):
    """A task in a run; everything of the execution is None while it has none. `is_left_out`: its output is
    not read with the run's, which are too much together."""

    key: str
    task_id: bytes
    execution_id: bytes | None
    state: str | None
    reason: str | None
    attempt: int | None
    failures: int | None
    started_ms: int | None
    ended_ms: int | None
    duration_ms: int | None
    output: Any
    is_left_out: bool | None
    items: int | None
    open_items: int | None
    failed_items: int | None
    skipped_items: int | None

    def as_read(self, task: Mapping[str, Any], run_state: str) -> dict[str, Any]:
        fan_out = {
            "items": self.items,
            "open": self.open_items,
            "failed": self.failed_items,
            "skipped": self.skipped_items,
        }
        return {
            "id": text_of(self.task_id),
            "key": self.key,
            "task": task["task"],
            "depends_on": task.get("depends_on", []),
            "state": task_state(self.state, self.reason, run_state),
            "reason": self.reason,
            "execution_id": None if self.execution_id is None else text_of(self.execution_id),
            "attempt": self.attempt,
            "failures": self.failures,
            "started_at": _time(self.started_ms),
            "ended_at": _time(self.ended_ms),
            "duration_ms": self.duration_ms,
            "output": self.output,
            "output_left_out": bool(self.is_left_out),
            "fan_out": fan_out if task.get("fan_out") else None,
        }


def task_state(state: str | None, reason: str | None, run_state: str) -> str:
    """A task's state in a run, from its execution's: pending has none yet (or one that was skipped and is
    not any more), and of what was skipped for its parents' sake the reason is the state."""
    if state is None or reason == PENDING_AGAIN:
        return "cancelled" if run_state == "cancelled" else "pending"
    return reason if state == "skipped" and reason in UPSTREAM else state


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else shown_time(at_ms)
