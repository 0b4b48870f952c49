"""Jobs and waiting executions as a store would hand them to a shard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shardwheel.job import JobEntry, WaitingExecution
from shardwheel.ports import Message
from shardwheel.schedule import Definition, schedule_from
from shardwheel.shard.arrivals import Stand
from shardwheel.wire import Fire, decode_fire

NOON_MS = 1_795_003_200_000
JOB_ID = bytes(range(16))


def every(interval_ms: int, **fields: Any) -> JobEntry:
    text = schedule_from(Definition(every_ms=interval_ms)).text
    return entry(schedule=text, anchor_ms=NOON_MS, **fields)


def once(at_ms: int, **fields: Any) -> JobEntry:
    return entry(schedule="{}", anchor_ms=at_ms, last_ms=at_ms, **fields)


def entry(**fields: Any) -> JobEntry:
    values: dict[str, Any] = {
        "job_id": JOB_ID,
        "partition": 7,
        "active": True,
        "version": 1,
        "schedule": "{}",
        "anchor_ms": 0,
        "start_ms": None,
        "last_ms": None,
        "jitter_ms": 0,
        "misfire": "fire_last",
        "misfire_grace_ms": 60_000,
        "catchup_window_ms": 3_600_000,
        "pool": "short",
        "priority": 2,
        "schedule_no": 11,
        "schedule_xid": 100,
        "effective_from_ms": NOON_MS,
    }
    return JobEntry(**(values | fields))


def waiting(due_ms: int, **fields: Any) -> WaitingExecution:
    values: dict[str, Any] = {
        "execution_id": bytes(range(16, 32)),
        "job_id": JOB_ID,
        "partition": 7,
        "attempt": 2,
        "due_ms": due_ms,
        "scheduled_ms": NOON_MS,
        "pool": "long",
        "priority": 0,
        "changed_xid": 100,
    }
    return WaitingExecution(**(values | fields))


def at(stand: Stand) -> dict[int, Stand]:
    """Both partitions of these tests stand here."""
    return {7: stand, 8: stand}


def fires(messages: Iterable[Message]) -> list[Fire]:
    return [decode_fire(message.value) for message in messages]
