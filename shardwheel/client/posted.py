"""A job's fields as one posts them, for whoever checks or completes names while writing a call.

What they mean is the API's description of a job; what is wrong with a value is said by the API, or by
`posting` where the job is stored in the caller's own transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict

Duration = float | str | timedelta
Time = datetime | str


class RunFields(TypedDict, total=False):
    """How a run is made, whenever it is due."""

    name: str
    priority: Literal["critical", "high", "normal", "low"]
    pool: Literal["short", "medium", "long"]
    timeout_s: float
    max_retries: int
    backoff: Mapping[str, Any]
    misfire: Literal["fire_all", "fire_last", "skip"]
    misfire_grace_s: float
    catchup_window: Duration
    overlap: Literal["allow", "skip", "queue"]
    not_after_s: float | None
    jitter_s: Duration
    tags: Sequence[str]
    callback_url: str | None


class JobFields(RunFields, total=False):
    """And when: `cron`, `every`, `run_at`, `delay` or `parents`; none of them: once, now."""

    cron: str | None
    every: Duration | None
    run_at: Time | None
    delay: Duration | None
    parents: Sequence[str] | None
    time_zone: str
    dst_gap: Literal["shift", "skip"]
    dst_fold: Literal["first", "last", "both"]
    exclude: Sequence[str]
    start_at: Time | None
    end_at: Time | None
    max_runs: int | None


class NewJob(JobFields, total=False):
    """One of several that are posted together."""

    task: Required[str]
    params: Mapping[str, Any]
    idempotency_key: str | None


class JobEdit(JobFields, total=False):
    """The fields that are to change."""

    task: str
    params: Mapping[str, Any]
