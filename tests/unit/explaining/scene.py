"""What an explanation is asked of: a job, its execution, its partition, as a test wants them."""

from __future__ import annotations

from typing import Any

from shardwheel.explanation import (
    AttemptFacts,
    ExecutionFacts,
    Facts,
    JobFacts,
    PartitionFacts,
)
from shardwheel.ids import fire_id, text_of

NOW_MS = 1_795_003_200_000  # 2026-11-18T12:00:00Z
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
JOB_ID = bytes(15) + b"\x01"
JOB = text_of(JOB_ID)
OTHER_ID = bytes(15) + b"\x02"
SCHEDULED_MS = NOW_MS - MINUTE_MS
EXECUTION_ID = fire_id(JOB_ID, 7, SCHEDULED_MS)
EXECUTION = text_of(EXECUTION_ID)

WELL = PartitionFacts(NOW_MS - 500, NOW_MS - 5_000, "shard-a", True)
BEHIND = WELL._replace(fired_through_ms=NOW_MS - 2 * MINUTE_MS)

# What is asked of, the state and reason of the answer, words of its sentence, words of its remedy.
Case = tuple[Facts, str, str, str]


def job(**fields: Any) -> JobFacts:
    plain = JobFacts(
        JOB_ID,
        7,
        "email.send",
        "active",
        "every",
        "short",
        "allow",
        None,
        3,
        60_000,
        None,
        "fire_last",
        60_000,
        HOUR_MS,
        None,
        None,
        NOW_MS - HOUR_MS,
        NOW_MS - HOUR_MS,
    )
    return plain._replace(**fields)


def row(state: str, reason: str = "", **fields: Any) -> ExecutionFacts:
    plain = ExecutionFacts(
        state,
        reason,
        "schedule",
        SCHEDULED_MS,
        1,
        0,
        0,
        "worker-1",
        None,
        None,
        False,
        None,
        SCHEDULED_MS,
        None,
        None,
        None,
    )
    return plain._replace(**fields)


def facts(execution: ExecutionFacts | None = None, **fields: Any) -> Facts:
    """Of an execution, unless `execution_id=None` says that the job is meant."""
    given: dict[str, Any] = {"job": job(), "partition": WELL, "execution_id": EXECUTION_ID}
    given |= {"scheduled_ms": SCHEDULED_MS, "fire_ms": SCHEDULED_MS} | fields
    return Facts(now_ms=NOW_MS, execution=execution, **given)


FAILED = AttemptFacts(
    1, "failed", "ValueError", "no such address\ntrace", "worker-1", SCHEDULED_MS, SCHEDULED_MS
)
