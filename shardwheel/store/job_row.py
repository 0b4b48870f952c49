"""A job as its row has it, and the pure questions one asks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from shardwheel.posting import PRIORITIES
from shardwheel.schedule import schedule_of
from shardwheel.times import moment_of
from shardwheel.timing import Timing

_KINDS = frozenset({"cron", "every", "run_at", "delay"})
# What only a schedule that repeats can have: gone when a job becomes a once.
_OF_REPEATING = ("time_zone", "dst_gap", "dst_fold", "exclude", "end_at", "max_runs")


class JobRow(NamedTuple):
    """The columns that statements and answers need; times in milliseconds. `dag_id`: whose run a task is part
    of, a DAG's or a job's; its own of a job that has children."""

    job_id: bytes
    tenant_id: str
    partition: int
    kind: str
    state: str
    task: str
    name: str
    params: dict[str, Any]
    tags: list[str]
    schedule: str
    anchor_ms: int | None
    start_ms: int | None
    end_ms: int | None
    last_ms: int | None
    max_runs: int | None
    jitter_ms: int
    pool: str
    priority: int
    timeout_ms: int
    max_retries: int
    backoff: dict[str, Any]
    misfire: str
    misfire_grace_ms: int
    catchup_window_ms: int
    overlap: str
    not_after_ms: int | None
    version: int
    schedule_no: int
    schedule_xid: int
    effective_from_ms: int
    created_ms: int
    callback_url: str | None = None
    dag_id: bytes | None = None
    parents: Sequence[bytes] = ()

    @property
    def has_children(self) -> bool:
        return self.dag_id == self.job_id

    @property
    def timing(self) -> Timing:
        return Timing(schedule_of(self.schedule), self.anchor_ms or 0, self.start_ms, self.last_ms)

    def posted(self) -> dict[str, Any]:
        """The job as one would post it today."""
        said = {
            "task": self.task,
            "name": self.name,
            "params": self.params,
            "tags": self.tags,
            "pool": self.pool,
            "priority": PRIORITIES[self.priority],
            "timeout_s": self.timeout_ms / 1000,
            "max_retries": self.max_retries,
            "backoff": self.backoff,
            "misfire": self.misfire,
            "misfire_grace_s": self.misfire_grace_ms / 1000,
            "catchup_window": self.catchup_window_ms / 1000,
            "overlap": self.overlap,
            "not_after_s": None if self.not_after_ms is None else self.not_after_ms / 1000,
            "callback_url": self.callback_url,
        }
        return said | self._posted_timing()

    def posted_with(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The same with changes on top. A new kind of schedule replaces the old one but keeps its zone,
        exclusions, start and end, as far as the new kind has a use for them."""
        body = self.posted()
        if given := _KINDS & set(changes):
            for name in _KINDS:
                body.pop(name, None)
            if given & {"run_at", "delay"}:
                for name in _OF_REPEATING:
                    body.pop(name, None)
            if not (given & {"cron", "every"} and self._has_a_start_of_its_own):
                body.pop("start_at", None)
        return body | dict(changes)

    @property
    def _has_a_start_of_its_own(self) -> bool:
        """Whether somebody said when it begins: else an interval begins one interval after what it counts
        from."""
        return self.start_ms is not None and self.anchor_ms in (None, self.start_ms)

    def _posted_timing(self) -> dict[str, Any]:
        definition = schedule_of(self.schedule).definition
        body: dict[str, Any] = {"jitter_s": self.jitter_ms / 1000}
        if definition.cron is None and definition.every_ms is None:
            return body if definition.never else body | {"run_at": _moment(self.anchor_ms)}
        if definition.cron is not None:
            body["cron"] = definition.cron
        else:
            body["every"] = (definition.every_ms or 0) / 1000
        return body | {
            "time_zone": definition.time_zone,
            "dst_gap": definition.dst_gap,
            "dst_fold": definition.dst_fold,
            "exclude": definition.exclude,
            "start_at": _moment(self.start_ms),
            "end_at": _moment(self.end_ms),
            "max_runs": self.max_runs,
        }


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else moment_of(at_ms)
