"""What must hold: rules 1 to 5 of design.md, from the jobs' definitions and the noted changes alone.

`Watcher` looks at every commit (no illegal transition, nothing claimed that may not run). `check` looks at
the end: every time of a schedule in force has an execution or a recorded skip, and nothing else has one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from shardwheel.execution import TERMINAL_STATES, WAITING_STATES
from shardwheel.ids import fire_id, text_of
from shardwheel.memory import ownership, rows
from shardwheel.memory.postgres_server import MemoryPostgres
from shardwheel.memory.rows import Execution
from shardwheel.memory.transaction import Transaction
from shardwheel.missed import fire_time
from shardwheel.store.job_row import JobRow
from tests.simulation.people import CANCELS, NOTES

UNFINISHED = WAITING_STATES | {"held", "running"}


class ViolationError(Exception):
    """A rule was broken."""


class Watcher:
    """Sees every commit before it is applied."""

    def __init__(self, server: MemoryPostgres) -> None:
        self._server = server
        # (execution, attempt) of handlers that ended well.
        self.successes: set[tuple[str, int]] = set()
        self.claims = 0
        self.seen: list[ViolationError] = []

    def commit(self, transaction: Transaction) -> None:
        for key, new in transaction._writes.get(rows.EXECUTIONS, {}).items():
            old: Execution | None = self._server.tables[rows.EXECUTIONS].get(key)
            if old is not None:
                self._check_change(old, new)
            if new.state == "running" and (old is None or old.state != "running"):
                self.claims += 1
                self._check_claim(new)

    def _check_change(self, old: Execution, new: Execution) -> None:
        name = f"execution {text_of(old.execution_id)}: {old.state} → {new.state}"
        if new.attempt < old.attempt:
            raise ViolationError(f"{name}: its attempt went back")
        if old.state in TERMINAL_STATES and new.state != old.state:
            raise ViolationError(f"{name}: it was over")
        if old.state == "running" and new.state == "running" and old.claim_token != new.claim_token:
            raise ViolationError(f"{name}: claimed while it ran")
        if old.state == "running" and new.state in WAITING_STATES and new.attempt != old.attempt + 1:
            raise ViolationError(f"{name}: put back under the same attempt")
        succeeds = old.state == "running" and new.state == "succeeded"
        if succeeds and (text_of(old.execution_id), old.attempt) not in self.successes:
            raise ViolationError(f"{name}: attempt {old.attempt} never succeeded")

    def _check_claim(self, new: Execution) -> None:
        job: JobRow = self._server.tables[rows.JOBS][new.job_id].row
        wished = new.origin == "trigger" and new.attempt == 1
        if job.state == "deleted" or (job.state == "paused" and not wished):
            raise ViolationError(f"execution {text_of(new.execution_id)} was claimed: its job is {job.state}")


class Segment(NamedTuple):
    """One state of a schedule, as it was made and as it was noted last, and until when it was in force."""

    made: JobRow
    job: JobRow
    until_ms: int | None

    def times(self, through_ms: int) -> Iterator[int]:
        if self.made.state == "active":  # It may have been completed since.
            last_ms = through_ms if self.until_ms is None else min(through_ms, self.until_ms - 1)
            yield from self.job.timing.times_between(self._begins_ms - 1, last_ms)

    @property
    def _begins_ms(self) -> int:
        """A new job's only time counts, also when it was past already."""
        is_new_once = self.made.version == 1 and self.job.timing.schedule.kind == "once"
        return (
            min(self.job.effective_from_ms, self.job.anchor_ms or 0)
            if is_new_once
            else self.job.effective_from_ms
        )

    def due_ms(self, time_ms: int) -> int:
        job = self.job
        return fire_time(job.timing.schedule, job.job_id, time_ms, job.anchor_ms or 0, job.jitter_ms)


def segments(server: MemoryPostgres) -> dict[bytes, list[Segment]]:
    """Each job's states of its schedule, by the notes."""
    of_job: dict[bytes, dict[int, list[JobRow]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(server.tables[NOTES].values(), key=lambda row: row.version):
        of_job[row.job_id][row.schedule_no].append(row)
    found = {}
    for job_id, states in of_job.items():
        noted = list(states.values())
        ends = [rows_of[0].effective_from_ms for rows_of in noted[1:]]
        found[job_id] = [Segment(of[0], of[-1], end) for of, end in zip(noted, [*ends, None], strict=True)]
    return found


def is_quiet(server: MemoryPostgres, through_ms: int) -> bool:
    """Everything up to that time has been fired, has met the claim, and is over."""
    states = server.tables[ownership.TABLE].values()
    if any(min(state.fired_through_ms, state.floor_ms) <= through_ms for state in states):
        return False
    if any(work.state == "open" for work in server.tables[rows.WORK_ROWS].values()):
        return False
    table = server.tables[rows.EXECUTIONS].values()
    return not any(
        row.state in UNFINISHED and row.due_ms <= through_ms and not _waits_for_resume(server, row)
        for row in table
    )


def _waits_for_resume(server: MemoryPostgres, row: Execution) -> bool:
    job = server.tables[rows.JOBS][row.job_id].row
    return row.state == "held" and row.reason == "paused" and job.state == "paused"


def why_not_quiet(server: MemoryPostgres, through_ms: int) -> str:
    states = [
        (s.partition, s.owner, s.fired_through_ms - through_ms, s.floor_ms - through_ms)
        for s in server.tables[ownership.TABLE].values()
    ]
    open_rows = [
        (text_of(x.execution_id), x.state, x.reason, x.attempt, x.due_ms - through_ms, x.reported)
        for x in server.tables[rows.EXECUTIONS].values()
        if x.state in UNFINISHED and x.due_ms <= through_ms
    ]
    work = [w for w in server.tables[rows.WORK_ROWS].values() if w.state == "open"]
    return f"stuck: partitions {states}, executions {open_rows}, work {work}"


def check_fired(server: MemoryPostgres, through_ms: int) -> None:
    """Somebody has fired every partition up to that time."""
    late = [s for s in server.tables[ownership.TABLE].values() if s.fired_through_ms < through_ms]
    if late:
        behind_ms = {state.partition: through_ms - state.fired_through_ms for state in late}
        raise ViolationError(f"nobody fires: {behind_ms} ms behind: {late}")


def check(server: MemoryPostgres, through_ms: int) -> int:
    """Look at every (job, time) up to that fire time; how many there were."""
    known = segments(server)
    if missing := set(server.tables[rows.JOBS]) - set(known):
        raise ViolationError(f"jobs without a note: {missing}")
    return sum(_check_job(server, job_id, states, through_ms) for job_id, states in known.items())


def _check_job(server: MemoryPostgres, job_id: bytes, states: list[Segment], through_ms: int) -> int:
    table = server.tables[rows.EXECUTIONS]
    own = {x.execution_id: x for x in table.values() if x.job_id == job_id and x.kind == 0}
    skips = [span for span in server.tables[rows.SKIP_RANGES].values() if span.job_id == job_id]
    last_ms = int(server.now_ms()) + 10_000
    rightful: set[bytes] = set()
    count = 0
    for segment in states:
        partition = segment.job.partition
        for time_ms in segment.times(last_ms):
            execution_id = fire_id(job_id, partition, time_ms)
            rightful.add(execution_id)
            if segment.due_ms(time_ms) > through_ms:
                continue
            count += 1
            if execution_id not in own and not any(s.first_ms <= time_ms <= s.last_ms for s in skips):
                raise ViolationError(f"lost: {_describe(segment, time_ms)}")
    for execution_id, row in own.items():
        if execution_id not in rightful and execution_id not in server.tables[CANCELS]:
            raise ViolationError(f"never scheduled: {row} of {states}")
        _check_reason(row, states)
    for span in skips:
        _check_span(span, states)
    return count


def _describe(segment: Segment, time_ms: int) -> str:
    job = segment.job
    after_ms = time_ms - job.effective_from_ms
    return f"{text_of(job.job_id)} at {time_ms}, {after_ms} ms after its beginning, of {segment}"


def _check_reason(row: Execution, states: list[Segment]) -> None:
    """A skip has a reason, and one that its job could give."""
    if row.state != "skipped":
        return
    jobs = [segment.job for segment in states]
    possible: dict[str | None, bool] = {
        "paused": any(job.state == "paused" for job in jobs),
        "deleted": any(job.state == "deleted" for job in jobs),
        "misfire": any(job.misfire != "fire_all" for job in jobs),
        "catchup_window": any(job.catchup_window_ms < 3_600_000 for job in jobs),
        "expired": any(job.not_after_ms is not None for job in jobs),
    }
    if not possible.get(row.reason, False):
        raise ViolationError(f"skipped without a reason that holds: {row}")


def _check_span(span: Any, states: list[Segment]) -> None:
    """A skip range tells how many times of its schedule it stands for."""
    (segment,) = [state for state in states if state.job.schedule_no == span.schedule_no]
    times = [time_ms for time_ms in segment.times(span.last_ms) if time_ms >= span.first_ms]
    if len(times) != span.times:
        raise ViolationError(f"a skip range of {len(times)} times says {span.times}: {span}")
