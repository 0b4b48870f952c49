"""What one has to know to say why an execution or a job is as it is, and what is then said. Pure values.

The store gathers the facts (store/explain.py), `explaining` says what follows from them; the command line and
the API show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shardwheel.execution import WAITING_STATES
from shardwheel.ids import text_of
from shardwheel.output import shown_time


class JobFacts(NamedTuple):
    """A job, and what its schedule says around now: the next time and fire time, and the last ones before now
    in the present state of the schedule (None: there are none). `is_time`: whether the execution in question
    stands at a time of the schedule. `excluded`: dates that the schedule passes over before the next time."""

    job_id: bytes
    partition: int
    task: str
    state: str
    kind: str
    pool: str
    overlap: str
    max_runs: int | None
    max_retries: int
    timeout_ms: int
    not_after_ms: int | None
    misfire: str
    misfire_grace_ms: int
    catchup_window_ms: int
    end_ms: int | None
    last_ms: int | None
    effective_from_ms: int
    changed_ms: int
    next_ms: int | None = None
    next_fire_ms: int | None = None
    previous_ms: int | None = None
    is_time: bool = True
    excluded: Sequence[str] = ()


class ExecutionFacts(NamedTuple):
    """An execution's row."""

    state: str
    reason: str
    origin: str
    due_ms: int
    attempt: int
    failures: int
    crashes: int
    worker: str
    lease_until_ms: int | None
    times_out_ms: int | None
    reported: bool
    cancel_requested_ms: int | None
    created_ms: int
    started_ms: int | None
    ended_ms: int | None
    duration_ms: int | None


class AttemptFacts(NamedTuple):
    attempt: int
    outcome: str
    error_class: str
    message: str
    worker: str
    started_ms: int | None
    ended_ms: int


class TaskFacts(NamedTuple):
    """What holds for the task type; who has a handler for it in the job's pool, and who is in that pool at
    all. None: nobody knows."""

    paused: bool = False
    paused_ms: int | None = None
    paused_by: str = ""
    max_running: int | None = None
    running: int | None = None
    rate_per_s: float | None = None
    breaker_open_until_ms: int | None = None
    able_workers: int | None = None
    pool_workers: int | None = None


class PartitionFacts(NamedTuple):
    """How far the partition was fired and claimed, and who owns it; `owner_known` is false when etcd was not
    asked or did not answer."""

    fired_through_ms: int
    floor_ms: int
    owner: str | None = None
    owner_known: bool = False


class LetterFacts(NamedTuple):
    """Its dead letter, if there is one."""

    dead_letter_id: bytes
    state: str
    reason: str
    redriven_as: bytes | None


class SpanFacts(NamedTuple):
    """A skip range that holds the time, or a work row that will come to it."""

    first_ms: int
    last_ms: int
    times: int | None
    reason: str
    is_skip: bool


class ParentFacts(NamedTuple):
    """A parent of a task, and the latest run that both are part of: of a DAG, or of the job at their root."""

    root_kind: str
    root_id: bytes
    run_id: bytes | None
    run_state: str
    parent_id: bytes
    state: str


class Facts(NamedTuple):
    """All of it. Of an execution without a row, `scheduled_ms` and `fire_ms` say when it ought to be. Of a
    job, they are its last past time's, if that has no row, and `latest` is its latest execution."""

    now_ms: int
    job: JobFacts
    partition: PartitionFacts
    task: TaskFacts = TaskFacts()
    execution_id: bytes | None = None
    scheduled_ms: int | None = None
    fire_ms: int | None = None
    execution: ExecutionFacts | None = None
    attempts: Sequence[AttemptFacts] = ()
    letter: LetterFacts | None = None
    span: SpanFacts | None = None
    slot_holder: bytes | None = None
    pool_lag: int | None = None
    latest: Facts | None = None
    parents: Sequence[ParentFacts] = ()

    def owned_by(self, owner: str | None) -> Facts:
        """With what etcd says: who owns the partition, or that nobody does."""
        partition = self.partition._replace(owner=owner, owner_known=True)
        latest = None if self.latest is None else self.latest._replace(partition=partition)
        return self._replace(partition=partition, latest=latest)

    @property
    def is_published(self) -> bool:
        """Whether it waits for a worker, as far as the tables tell."""
        row = self.execution
        due_ms = self.fire_ms if row is None else row.due_ms if row.state in WAITING_STATES else None
        return due_ms is not None and due_ms <= self.partition.fired_through_ms

    @property
    def job_text(self) -> str:
        return text_of(self.job.job_id)

    @property
    def execution_text(self) -> str:
        return "" if self.execution_id is None else text_of(self.execution_id)


class Explanation(NamedTuple):
    """What is so, why, in a sentence or a few; and what to do about it."""

    state: str
    reason: str
    sentence: str
    remedy: str


def span_text(length_ms: float) -> str:
    """A length of time as one says it: 350 ms, 12 s, 5 min, 2.5 h, 3 days."""
    length_ms = abs(length_ms)
    for limit_ms, unit_ms, unit in (
        (1_000, 1, "ms"),
        (120_000, 1_000, "s"),
        (7_200_000, 60_000, "min"),
        (172_800_000, 3_600_000, "h"),
    ):
        if length_ms < limit_ms:
            return f"{length_ms / unit_ms:.3g} {unit}"
    return f"{length_ms / 86_400_000:.3g} days"


def ago(at_ms: int | None, now_ms: int) -> str:
    """A moment, and how far from now it is."""
    if at_ms is None:
        return "at a time that is not on record"
    if at_ms > now_ms:
        return f"at {shown_time(at_ms)}, in {span_text(at_ms - now_ms)}"
    return f"at {shown_time(at_ms)}, {span_text(now_ms - at_ms)} ago"


def shown_facts(facts: Facts) -> Mapping[str, Any]:
    """The facts for scripts: times in ISO 8601, ids as text, what nobody knows left out."""
    shown: dict[str, Any] = {
        "now": shown_time(facts.now_ms),
        "job": _shown(facts.job),
        "partition": {"number": facts.job.partition, **_shown(facts.partition)},
        "task": _shown(facts.task),
    }
    if facts.scheduled_ms is not None:
        shown["scheduled_at"] = shown_time(facts.scheduled_ms)
    if facts.pool_lag is not None:
        shown["pool_lag"] = facts.pool_lag
    for name in ("execution", "letter", "span"):
        value = getattr(facts, name)
        if value is not None:
            shown[name] = _shown(value)
    if facts.attempts:
        shown["attempts"] = [_shown(attempt) for attempt in facts.attempts]
    if facts.parents:
        shown["parents"] = [_shown(parent) for parent in facts.parents]
    if facts.slot_holder is not None:
        shown["slot_holder"] = text_of(facts.slot_holder)
    return shown


# Lengths of time, as the job says them; all other milliseconds are moments.
_LENGTHS = {"timeout_ms", "not_after_ms", "misfire_grace_ms", "catchup_window_ms", "duration_ms"}


def _shown(value: NamedTuple) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, one in value._asdict().items():
        if one is None:
            continue
        if isinstance(one, bytes):
            shown[name] = text_of(one)
        elif name.endswith("_ms") and name not in _LENGTHS:
            shown[name.removesuffix("_ms") + "_at"] = shown_time(one)
        else:
            shown[name] = one
    return shown
