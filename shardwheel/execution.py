"""What an execution is: its states, where it came from, and what the claim and the settling hand over."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from shardwheel.limits import Tally, TaskName


class ExecutionState(StrEnum):
    QUEUED = "queued"
    HELD = "held"
    RUNNING = "running"
    RETRY_WAIT = "retry_wait"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    FORCE_COMPLETED = "force_completed"


WAITING_STATES = frozenset({ExecutionState.QUEUED, ExecutionState.RETRY_WAIT})
TERMINAL_STATES = frozenset(
    {
        ExecutionState.SUCCEEDED,
        ExecutionState.DEAD,
        ExecutionState.CANCELLED,
        ExecutionState.SKIPPED,
        ExecutionState.FORCE_COMPLETED,
    }
)


class Origin(StrEnum):
    SCHEDULE = "schedule"
    SETTLED = "settled"
    TRIGGER = "trigger"
    BACKFILL = "backfill"
    DAG = "dag"
    REDRIVE = "redrive"


class Claimed(NamedTuple):
    """An execution that this worker may run now. `attempt` is its fencing token."""

    execution_id: bytes
    job_id: bytes
    partition: int
    tenant_id: str
    task: str
    params: bytes
    scheduled_ms: int
    due_ms: int
    attempt: int
    failures: int
    timeout_ms: int
    claim_token: bytes
    trace: str = ""
    dag_run_id: bytes = b""


class ClaimReply(NamedTuple):
    """What became of a batch: what may run, what was put on record otherwise, by state and reason, and the
    partitions where roots of DAGs wait now."""

    claimed: list[Claimed]
    recorded: dict[tuple[str, str], int]
    duplicates: int
    queued: frozenset[int] = frozenset()


class RunEnd(NamedTuple):
    """A DAG's run that ended: how, and whether in time (None: nobody promised any)."""

    outcome: str
    in_time: bool | None


class Resolved(NamedTuple):
    """What followed from tasks of DAGs that were over: partitions where something waits now, runs that
    ended."""

    queued: frozenset[int] = frozenset()
    ends: tuple[RunEnd, ...] = ()

    def and_also(self, other: Resolved) -> Resolved:
        return Resolved(self.queued | other.queued, self.ends + other.ends)


class Told(NamedTuple):
    """How many ends that were put off DAG runs were told of, and what followed."""

    ends: int
    resolved: Resolved = Resolved()


class Settled(NamedTuple):
    """What became of a batch of results: how many by state, how many were of no current attempt, how the runs
    of each task type ended, what followed in DAGs, and of how many ends their runs are to be told later."""

    by_state: dict[str, int]
    stale: int
    tallies: dict[TaskName, Tally]
    resolved: Resolved = Resolved()
    put_off: int = 0


class Claimant(NamedTuple):
    """Who claims: the worker, its pool, the tasks it has handlers for, and the token of this claim."""

    worker: str
    pool: str
    tasks: frozenset[str]
    token: bytes


class Held(NamedTuple):
    """A running attempt in a worker's hands. Once its result is acknowledged by Kafka, where it stands: the
    sweep then waits for the result instead of the lease (`offset` is -1 until then)."""

    execution_id: bytes
    attempt: int
    claim_token: bytes
    topic_partition: int = 0
    offset: int = -1


class Note(NamedTuple):
    """What a running attempt has to say, for its worker to write: progress (JSON, or nothing new) and lines
    of its log, a JSON array of [at_ms, level, text], with the first one's number and how many they are."""

    execution_id: bytes
    attempt: int
    claim_token: bytes
    progress: bytes = b""
    first_line: int = 0
    line_count: int = 0
    lines: bytes = b""


class LogLine(NamedTuple):
    """A line of an execution's log. Of level `dropped`: a mark in place of the lines that were not kept."""

    attempt: int
    number: int
    at_ms: int
    level: str
    text: str


class Beat(NamedTuple):
    """What a heartbeat told: still ours, and asked to stop. What is missing from `ours` is lost."""

    ours: frozenset[bytes]
    to_stop: frozenset[bytes]


class ResultsStand(NamedTuple):
    """How far the results topic is settled: per topic partition, the first offset that is not."""

    generation: str
    settled: Mapping[int, int]


class HoldPages(NamedTuple):
    """How far a sweep has come among those that hold something: (tenant, job), and (tenant, task) by reason
    (none: at the beginning)."""

    paused: tuple[str, str]
    overlap: tuple[str, str]
    by_task: Mapping[str, tuple[str, str]]


FIRST_PAGES = HoldPages(("", ""), ("", ""), {})


class EndingPage(NamedTuple):
    """How far a sweep has come among the jobs whose last time has passed."""

    partition: int
    last_ms: int
    job_id: bytes


FIRST_ENDING = EndingPage(0, 0, bytes(16))


class Counts(NamedTuple):
    """How many executions are held in some partitions, by reason, how many dead letters are open, and how
    many DAG runs are under way beyond their `sla_s`."""

    held: Mapping[str, int]
    dead_letters: int
    late_runs: int = 0


class Callback(NamedTuple):
    """Somebody to be told of an execution's end: what is sent, which try this is, how old it is, and when it
    was taken."""

    callback_id: bytes
    url: str
    host: str
    body: bytes
    tries: int
    age_ms: int
    taken_ms: int


class UnpublishedLetter(NamedTuple):
    """A dead letter that the topic does not have yet, as JSON."""

    dead_letter_id: bytes
    job_id: bytes
    partition: int
    value: bytes
