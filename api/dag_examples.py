"""The document's examples about DAGs. A test checks each against what it is an example of."""

from __future__ import annotations

from typing import Any

from shardwheel.api.examples import JOB_ID

RUN_ID = "019a9e5c-a000-0011-8c2e-4f1a6b0d9e37"
_TASK_ID = "019a9e5c-7e1b-7c3a-8f21-0c9d3b7a5e11"

DAG_POSTED: dict[str, Any] = {
    "name": "etl",
    "cron": "0 2 * * *",
    "policy": "continue",
    "sla_s": 3600,
    "tasks": [
        {"key": "extract", "task": "etl.extract", "params": {"bucket": "in"}},
        {"key": "load", "task": "etl.load", "depends_on": ["extract"], "timeout_s": 900},
    ],
}
DAG: dict[str, Any] = {
    "id": JOB_ID,
    "name": "etl",
    "state": "active",
    "version": 1,
    "policy": "continue",
    "sla_s": 3600.0,
    "cron": "0 2 * * *",
    "next_at": "2026-11-20T02:00:00.000Z",
    "tags": [],
    "priority": "normal",
    "pool": "short",
    "max_retries": 3,
    "backoff": {"kind": "exponential", "base_s": 30, "factor": 2, "max_s": 1800, "jitter": 0.1},
    "misfire": "fire_last",
    "misfire_grace_s": 60.0,
    "catchup_window": "3600s",
    "overlap": "allow",
    "not_after_s": None,
    "partition": 17,
    "created_at": "2026-11-19T14:03:11.482Z",
    "task_count": 2,
}
_DAG_TASK: dict[str, Any] = {
    "id": _TASK_ID,
    "key": "extract",
    "task": "etl.extract",
    "params": {"bucket": "in"},
    "depends_on": [],
    "fan_out": False,
}
DAG_WITH_TASKS = DAG | {"task_count": 1, "tasks": [_DAG_TASK]}
RUN: dict[str, Any] = {
    "id": RUN_ID,
    "dag_id": JOB_ID,
    "version": 1,
    "state": "running",
    "reason": None,
    "origin": "schedule",
    "scheduled_at": "2026-11-20T02:00:00.000Z",
    "started_at": "2026-11-20T02:00:00.031Z",
    "ended_at": None,
    "sla_at": "2026-11-20T03:00:00.000Z",
    "sla_met": None,
    "unfinished": 1,
    "succeeded": 0,
    "failed": 0,
    "skipped": 0,
    "rounds": 0,
}
_RUN_TASK: dict[str, Any] = {
    "id": _TASK_ID,
    "key": "extract",
    "task": "etl.extract",
    "depends_on": [],
    "state": "running",
    "reason": None,
    "execution_id": "019a9e5c-a000-0011-9b1d-5a3c2f6e7d80",
    "attempt": 1,
    "failures": 0,
    "started_at": "2026-11-20T02:00:00.052Z",
    "ended_at": None,
    "duration_ms": None,
    "output": None,
    "output_left_out": False,
    "fan_out": None,
}
RUN_WITH_TASKS = RUN | {"params": None, "dag": "etl", "policy": "continue", "tasks": [_RUN_TASK]}
TRIGGERED = {"id": RUN_ID, "run_id": RUN_ID, "dag_id": JOB_ID}
