"""An execution and its attempts as their rows have them, and as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shardwheel.ids import text_of
from shardwheel.output import shown_time
from shardwheel.times import parse_time


class ExecutionRow(NamedTuple):
    """The columns of an answer, in the order of the statements; times in milliseconds."""

    execution_id: bytes
    job_id: bytes
    task: str
    state: str
    reason: str | None
    origin: str
    scheduled_ms: int
    due_ms: int
    attempt: int
    failures: int
    crashes: int
    worker: str | None
    started_ms: int | None
    ended_ms: int | None
    duration_ms: int | None
    cancel_requested_ms: int | None
    progress: Any
    output: Any
    dag_run_id: bytes | None

    def as_read(self) -> dict[str, Any]:
        return {
            "id": text_of(self.execution_id),
            "job_id": text_of(self.job_id),
            "task": self.task,
            "state": self.state,
            "reason": self.reason,
            "origin": self.origin,
            "dag_run_id": None if self.dag_run_id is None else text_of(self.dag_run_id),
            "scheduled_at": shown_time(self.scheduled_ms),
            "due_at": shown_time(self.due_ms),
            "attempt": self.attempt,
            "failures": self.failures,
            "crashes": self.crashes,
            "worker": self.worker,
            "started_at": time_or_none(self.started_ms),
            "ended_at": time_or_none(self.ended_ms),
            "duration_ms": self.duration_ms,
            "cancel_requested_at": time_or_none(self.cancel_requested_ms),
            "progress": self.progress,
            "output": self.output,
        }


def attempt_as_read(row: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt, from its row as JSON (PostgreSQL's own, whose times depend on the session's zone)."""
    kept = ("attempt", "outcome", "class", "message", "traceback", "worker", "slot_ms")
    times = ("started_at", "ended_at")
    own = {"id": str(row["attempt"])} | {name: row.get(name) for name in kept}
    return own | {name: _in_utc(row.get(name)) for name in times}


def time_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else shown_time(at_ms)


def _in_utc(text: str | None) -> str | None:
    return None if text is None else shown_time(parse_time(text, "time"))
