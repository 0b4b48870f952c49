"""A dead letter as its row has it, and as people read it."""

from __future__ import annotations

from typing import Any, NamedTuple

from shardwheel.ids import text_of
from shardwheel.output import shown_time
from shardwheel.store.execution_row import attempt_as_read, time_or_none


class LetterRow(NamedTuple):
    """What a list shows of a dead letter, in the order of the statements; times in milliseconds."""

    dead_letter_id: bytes
    execution_id: bytes
    job_id: bytes
    dag_run_id: bytes | None
    partition: int
    task: str
    state: str
    reason: str
    error_class: str | None
    message: str | None
    worker: str | None
    origin: str
    scheduled_ms: int
    attempt: int
    failures: int
    crashes: int
    created_ms: int
    redriven_as: bytes | None
    resolved_by: str | None
    resolved_ms: int | None

    def as_read(self) -> dict[str, Any]:
        return {
            "id": text_of(self.dead_letter_id),
            "execution_id": text_of(self.execution_id),
            "job_id": text_of(self.job_id),
            "dag_run_id": _text_or_none(self.dag_run_id),
            "task": self.task,
            "state": self.state,
            "reason": self.reason,
            "class": self.error_class,
            "message": self.message,
            "worker": self.worker,
            "origin": self.origin,
            "scheduled_at": shown_time(self.scheduled_ms),
            "attempt": self.attempt,
            "failures": self.failures,
            "crashes": self.crashes,
            "created_at": shown_time(self.created_ms),
            "redriven_as": _text_or_none(self.redriven_as),
            "resolved_by": self.resolved_by,
            "resolved_at": time_or_none(self.resolved_ms),
        }


class LetterContents(NamedTuple):
    """What it carries beside: all that is needed to understand and replay it."""

    params: dict[str, Any]
    job: dict[str, Any]
    attempts: list[dict[str, Any]]
    traceback: str | None
    checkpoint: Any
    progress: Any
    trace: str | None
    published_ms: int | None

    def as_read(self) -> dict[str, Any]:
        plain = self._asdict()
        plain["attempts"] = [attempt_as_read(attempt) for attempt in self.attempts]
        return plain | {"published_at": time_or_none(plain.pop("published_ms"))}


def both_halves(row: tuple[Any, ...]) -> tuple[LetterRow, LetterContents]:
    """Of a row that was read whole."""
    width = len(LetterRow._fields)
    return LetterRow._make(row[:width]), LetterContents._make(row[width:])


def _text_or_none(id_bytes: bytes | None) -> str | None:
    return None if id_bytes is None else text_of(id_bytes)
