"""The examples of the document. A test checks each against what it is an example of."""

from __future__ import annotations

from typing import Any

JOB_ID = "019a9e5c-7e1b-7c3a-8f21-0c9d3b7a5e10"
PARENT_ID = "019a9e5c-1f02-7d44-a1b0-6e2f9c8d7b31"
EXECUTION_ID = "019a9e5c-a000-0011-9b1d-5a3c2f6e7d80"
ALERT_ID = "5d2c8a0e-9b41-4f7e-8a36-1c0f7be2d945"
LETTER_ID = "0c8f6a52-3d1e-4b7a-9c55-d2f04a9e6b13"

JOB_POSTED: dict[str, Any] = {
    "task": "email.send",
    "params": {"to": "a@b.c", "key": {"$secret": "smtp"}},
    "cron": "0 9 * * 1-5",
    "time_zone": "Europe/Berlin",
    "tags": ["billing"],
}
JOB: dict[str, Any] = {
    "id": JOB_ID,
    "kind": "job",
    "state": "active",
    "next_at": "2026-11-20T08:00:00.000Z",
    "created_at": "2026-11-19T14:03:11.482Z",
    "version": 1,
    "partition": 17,
    "task": "email.send",
    "name": "",
    "params": {"to": "a@b.c", "key": {"$secret": "smtp"}},
    "tags": ["billing"],
    "pool": "short",
    "priority": "normal",
    "timeout_s": 60.0,
    "max_retries": 3,
    "backoff": {"kind": "exponential", "base_s": 30, "factor": 2, "max_s": 1800, "jitter": 0.1},
    "misfire": "fire_last",
    "misfire_grace_s": 60.0,
    "catchup_window": "3600s",
    "overlap": "allow",
    "not_after_s": None,
    "callback_url": None,
    "jitter_s": 0.0,
    "parents": [],
    "dag_id": None,
    "cron": "0 9 * * 1-5",
    "time_zone": "Europe/Berlin",
    "dst_gap": "shift",
    "dst_fold": "first",
    "exclude": [],
    "start_at": None,
    "end_at": None,
    "max_runs": None,
}
EXECUTION: dict[str, Any] = {
    "id": EXECUTION_ID,
    "job_id": JOB_ID,
    "task": "email.send",
    "state": "succeeded",
    "reason": None,
    "origin": "schedule",
    "dag_run_id": None,
    "scheduled_at": "2026-11-20T08:00:00.000Z",
    "due_at": "2026-11-20T08:00:00.000Z",
    "attempt": 1,
    "failures": 0,
    "crashes": 0,
    "worker": "host-4711-9f86d081",
    "started_at": "2026-11-20T08:00:00.021Z",
    "ended_at": "2026-11-20T08:00:00.310Z",
    "duration_ms": 289,
    "cancel_requested_at": None,
    "progress": None,
    "output": {"message_id": "42"},
}
ATTEMPT: dict[str, Any] = {
    "id": "1",
    "attempt": 1,
    "outcome": "succeeded",
    "class": None,
    "message": None,
    "traceback": None,
    "worker": "host-4711-9f86d081",
    "slot_ms": 289,
    "started_at": "2026-11-20T08:00:00.021Z",
    "ended_at": "2026-11-20T08:00:00.310Z",
}
EXPLANATION: dict[str, Any] = {
    "id": EXECUTION_ID,
    "kind": "execution",
    "state": "held",
    "reason": "task_paused",
    "sentence": "It is held: the task type email.send is paused.",
    "remedy": "Resume it: shardctl task resume email.send",
    "facts": {"job_id": JOB_ID},
}
SKIP: dict[str, Any] = {
    "from": "2026-11-19T08:00:00.000Z",
    "to": "2026-11-19T08:00:00.000Z",
    "count": 1,
    "reason": "overlap",
}
LOG_LINE: dict[str, Any] = {
    "id": "1.1",
    "attempt": 1,
    "number": 1,
    "at": "2026-11-20T08:00:00.120Z",
    "level": "info",
    "text": "sent to a@b.c",
}
LETTER: dict[str, Any] = {
    "id": LETTER_ID,
    "execution_id": EXECUTION_ID,
    "job_id": JOB_ID,
    "task": "email.send",
    "state": "open",
    "reason": "retries_exhausted",
    "class": "SMTPServerDisconnected",
    "message": "Connection unexpectedly closed",
    "attempt": 4,
    "failures": 4,
    "created_at": "2026-11-20T08:31:00.118Z",
}
TASK: dict[str, Any] = {
    "id": "email.send",
    "task": "email.send",
    "paused": False,
    "max_running": 4,
    "slots_taken": 1,
    "rate": "100/min",
    "breaker": "closed",
    "breaker_open_until": None,
    "held": 0,
}
SHARD: dict[str, Any] = {
    "id": "host-4711-9f86d081",
    "state": "active",
    "zone": "",
    "leader": True,
    "partitions": 256,
    "standbys": 0,
    "address": "127.0.0.1:41873",
    "version": "0.1.0",
    "started_at": "2026-11-19T14:00:00.000Z",
}
WHEEL: dict[str, Any] = {
    "items": [{"id": "host-4711-9f86d081", "entries": 333_000, "counts": [1204, 880, 913, 1377]}],
    "next_cursor": None,
    "from": "2026-11-20T08:00:00.000Z",
    "to": "2026-11-20T09:00:00.000Z",
    "bucket_ms": 900_000,
    "counts": [1204, 880, 913, 1377],
    "complete": True,
    "missing": [],
}
SHARD_LEFT: dict[str, Any] = {
    "id": "host-4711-9f86d081",
    "state": "draining",
    "partitions": 85,
    "drained": False,
}
_MOVES: dict[str, Any] = {
    "partitions": 1,
    "jobs": 3,
    "expected_s": 0.1,
    "moves": [{"partition": 17, "from": "host-4711-9f86d081", "to": "host-4712-1a2b3c4d", "jobs": 3}],
}
STANDING: dict[str, Any] = {
    "state": "in_progress",
    "reason": "1 partitions are on their way",
    "remedy": "",
    "automatic": True,
    "leader": "host-4711-9f86d081",
    "generation": 4,
    "planned_because": "joined: host-4712-1a2b3c4d",
    "draining": None,
    "pins": 0,
    **_MOVES,
    "planned": _MOVES,
}
PARTITION: dict[str, Any] = {
    "partition": 17,
    "state": "owned",
    "owner": "host-4711-9f86d081",
    "standby": None,
    "planned": "host-4711-9f86d081",
    "pin": None,
    "jobs": 3,
    "fired_through": "2026-11-20T08:00:00.512Z",
    "behind_s": 0.4,
    "claimed_through": "2026-11-20T07:59:58.000Z",
    "epoch": 4,
}
ALERT: dict[str, Any] = {
    "id": ALERT_ID,
    "rule": "oldest_due",
    "subject": "",
    "state": "open",
    "severity": "warning",
    "value": 41.5,
    "sentence": "The oldest due entry has waited for 41.5 s.",
    "remedy": "Look at the shards: shardctl shard list",
    "runbook": "docs/alerts.md#oldest_due",
    "facts": {},
    "opened_at": "2026-11-20T08:01:00.000Z",
    "last_seen_at": "2026-11-20T08:01:20.000Z",
    "notified_at": "2026-11-20T08:01:00.310Z",
    "resolved_at": None,
    "silenced_until": None,
}
AUDIT: dict[str, Any] = {
    "id": "815",
    "at": "2026-11-20T08:32:00.004Z",
    "actor": "ann",
    "role": "operator",
    "action": "job.pause",
    "object_kind": "job",
    "object_id": JOB_ID,
    "details": {"before": {"state": "active"}, "after": {"state": "paused"}},
}


def page(item: dict[str, Any], cursor: str | None = None) -> dict[str, Any]:
    return {"items": [item], "next_cursor": cursor}
