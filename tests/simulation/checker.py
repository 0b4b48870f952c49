"""What must hold: rules 1 to 5 of design.md, from the jobs' definitions and the noted changes alone.

`Watcher` looks at every change of an execution (no illegal transition, nothing claimed that may not run) and
at every run of a handler (none twice). `check` looks at the end: every time of a schedule in force has an
execution or a recorded skip, and nothing else has one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from shardwheel.dag_run import PENDING_AGAIN
from shardwheel.execution import TERMINAL_STATES, WAITING_STATES
from shardwheel.ids import fire_id, text_of
from shardwheel.memory.rows import Execution, SkipRange
from shardwheel.missed import fire_time
from shardwheel.store.job_row import JobRow
from tests.simulation.tables import Tables

UNFINISHED = WAITING_STATES | {"held", "running"}


class ViolationError(Exception):
    """A rule was broken."""


class Watcher:
    """Is told of every change of an execution, in order, and of every run."""

    def __init__(self) -> None:
        # By (execution, attempt): how often it was claimed (again only after a fail-over that lost the first
        # claim), how often its handler began, and whether that ended well.
        self._claimed: Counter[tuple[str, int]] = Counter()
        self._begun: Counter[tuple[str, int]] = Counter()
        self._succeeded: set[tuple[str, int]] = set()
        self.seen: list[ViolationError] = []

    @property
    def claims(self) -> int:
        return self._claimed.total()

    def begins(self, execution_id: str, attempt: int) -> None:
        run = execution_id, attempt
        self._begun[run] += 1
        if self._begun[run] > self._claimed[run]:
            self.seen.append(
                ViolationError(f"execution {execution_id}: attempt {attempt} ran once too often")
            )

    def succeeds(self, execution_id: str, attempt: int) -> None:
        self._succeeded.add((execution_id, attempt))

    def change(
        self,
        old: Execution | None,
        new: Execution,
        job_state: str,
        *,
        wished: bool = False,
        reopens: bool = False,
    ) -> None:
        """`job_state`: that of its job, or its DAG, as the transaction saw it; `wished`: its DAG run was
        triggered by hand; `reopens`: it may go on though it was over. What is seen is raised at the end: in a
        simulated commit it would only crash a process."""
        try:
            goes_on = reopens and old is not None and _may_go_on(old)
            if old is not None and not goes_on:
                self._check_change(old, new)
            starts = new.state == "running" and (old is None or old.state != "running")
            if starts and not goes_on and not _is_fan_out(new):
                self._claimed[text_of(new.execution_id), new.attempt] += 1
                _check_claim(new, job_state, wished or (new.origin == "trigger" and new.attempt == 1))
        except ViolationError as error:
            self.seen.append(error)

    def _check_change(self, old: Execution, new: Execution) -> None:
        name = f"execution {text_of(old.execution_id)}: {old.state} → {new.state}"
        if new.attempt < old.attempt:
            raise ViolationError(f"{name}: its attempt went back")
        if old.state in TERMINAL_STATES and new.state != old.state and old.reason != PENDING_AGAIN:
            raise ViolationError(f"{name}: it was over")
        if old.state == "running" and new.state == "running" and old.claim_token != new.claim_token:
            raise ViolationError(f"{name}: claimed while it ran")
        if old.state == "running" and new.state in WAITING_STATES and new.attempt != old.attempt + 1:
            raise ViolationError(f"{name}: put back under the same attempt")
        succeeds = old.claim_token is not None and old.state == "running" and new.state == "succeeded"
        if succeeds and (text_of(old.execution_id), old.attempt) not in self._succeeded:
            raise ViolationError(f"{name}: attempt {old.attempt} never succeeded")


def _is_fan_out(new: Execution) -> bool:
    """It runs without a claim: its items are claimed."""
    return new.dag_run_id is not None and new.claim_token is None


def _may_go_on(old: Execution) -> bool:
    """What did not succeed may be tried again. The fire of a DAG goes on with its run, however that ended."""
    return old.state in TERMINAL_STATES and (old.state != "succeeded" or old.dag_run_id is None)


def _check_claim(new: Execution, job_state: str, wished: bool) -> None:
    if job_state == "deleted" or (job_state == "paused" and not wished):
        raise ViolationError(f"execution {text_of(new.execution_id)} was claimed: its job is {job_state}")


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


def segments(tables: Tables) -> dict[bytes, list[Segment]]:
    """Each job's states of its schedule, by the notes."""
    of_job: dict[bytes, dict[int, list[JobRow]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(tables.notes, key=lambda row: row.version):
        of_job[row.job_id][row.schedule_no].append(row)
    found = {}
    for job_id, states in of_job.items():
        noted = list(states.values())
        ends = [rows_of[0].effective_from_ms for rows_of in noted[1:]]
        found[job_id] = [Segment(of[0], of[-1], end) for of, end in zip(noted, [*ends, None], strict=True)]
    return found


def is_quiet(tables: Tables, through_ms: int) -> bool:
    """Everything up to that time has been fired, has met the claim, and is over."""
    if any(min(state.fired_through_ms, state.floor_ms) <= through_ms for state in tables.partitions):
        return False
    open_rows = [row for row in tables.executions if row.state in UNFINISHED and row.due_ms <= through_ms]
    held = [row for row in tables.executions if _waits_for_resume(tables, row)]
    runs = {row.dag_run_id for row in held} - {None}
    parked = {row.execution_id for row in held} | {
        row.execution_id
        for row in open_rows
        if _has_no_worker(row) and (row.dag_run_id or row.execution_id) in runs
    }
    return not tables.open_work and all(
        row.execution_id in parked or _waits_for(tables, row) in parked for row in open_rows
    )


def _waits_for_resume(tables: Tables, row: Execution) -> bool:
    """People have paused its job or its task, and nothing but their word will let it go on."""
    if row.state != "held":
        return False
    if row.reason == "task_paused":
        return row.held_for in tables.paused_tasks
    return row.reason == "paused" and tables.jobs[tables.dag_of.get(row.job_id, row.job_id)] == "paused"


def _has_no_worker(row: Execution) -> bool:
    """A DAG's fire runs for as long as its run, a fan-out for as long as its items."""
    return row.state == "running" and row.lease_until_ms is None


def _waits_for(tables: Tables, row: Execution) -> bytes | None:
    """Another execution of its job, if that one has the slot."""
    return tables.overlap_slots.get(row.job_id) if row.reason == "overlap" else None


def why_not_quiet(tables: Tables, through_ms: int) -> str:
    late = [
        (s.partition, s.owner, s.fired_through_ms - through_ms, s.floor_ms - through_ms)
        for s in tables.partitions
        if min(s.fired_through_ms, s.floor_ms) <= through_ms
    ]
    open_rows = [
        (text_of(x.execution_id), x.state, x.reason, x.attempt, x.due_ms - through_ms, x.reported)
        for x in tables.executions
        if x.state in UNFINISHED and x.due_ms <= through_ms
    ]
    return f"stuck: partitions {late}, executions {open_rows}, work {tables.open_work}"


def check_fired(tables: Tables, through_ms: int) -> None:
    """Somebody has fired every partition up to that time."""
    late = [s for s in tables.partitions if s.fired_through_ms < through_ms]
    if late:
        behind_ms = {state.partition: through_ms - state.fired_through_ms for state in late}
        raise ViolationError(f"nobody fires: {behind_ms} ms behind: {late}")


def check(tables: Tables, through_ms: int) -> int:
    """Look at every (job, time) up to that fire time; how many there were."""
    known = segments(tables)
    if missing := set(tables.jobs) - set(known) - set(tables.dag_of):
        raise ViolationError(f"jobs without a note: {missing}")
    own: dict[bytes, dict[bytes, Execution]] = defaultdict(dict)
    for row in tables.executions:
        if row.kind == 0:
            own[row.job_id][row.execution_id] = row
    return sum(_check_job(tables, own[job_id], states, through_ms) for job_id, states in known.items())


def _check_job(tables: Tables, own: Mapping[bytes, Execution], states: list[Segment], through_ms: int) -> int:
    job_id, partition = states[0].job.job_id, states[0].job.partition
    skips = [span for span in tables.skip_ranges if span.job_id == job_id]
    last_ms = tables.now_ms + 10_000
    rightful: set[bytes] = set()
    count = 0
    for segment in states:
        for time_ms in segment.times(last_ms):
            execution_id = fire_id(job_id, partition, time_ms)
            rightful.add(execution_id)
            if segment.due_ms(time_ms) > through_ms:
                continue
            count += 1
            if execution_id not in own and not any(s.first_ms <= time_ms <= s.last_ms for s in skips):
                raise ViolationError(f"lost: {_describe(segment, time_ms)}")
    for execution_id, row in own.items():
        if execution_id not in rightful and execution_id not in tables.cancelled:
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
        "overlap": any(job.overlap == "skip" for job in jobs),
    }
    if not possible.get(row.reason, False):
        raise ViolationError(f"skipped without a reason that holds: {row}")


def _check_span(span: SkipRange, states: list[Segment]) -> None:
    """A skip range tells how many times of its schedule it stands for."""
    (segment,) = [state for state in states if state.job.schedule_no == span.schedule_no]
    times = [time_ms for time_ms in segment.times(span.last_ms) if time_ms >= span.first_ms]
    if len(times) != span.times:
        raise ViolationError(f"a skip range of {len(times)} times says {span.times}: {span}")
