"""What a shard holds of one partition: its jobs and waiting executions, in a wheel, with columns beside it.

A job stands in the wheel at its next fire time; its row in the columns says which scheduled time that is.
`take` and `forget` are the only ways in and out, `due` the only way to the messages; none of them waits for
anything. All of it can be rebuilt from the tables: nothing here is worth saving.

Columns instead of an object a job: at a million jobs Python's collector would walk a million objects, and
each would cost more than all columns together. What many jobs share (schedule, policy) is one object.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from shardwheel.job import JobEntry, WaitingExecution
from shardwheel.missed import Policy, fates, fire_time, first_due_after
from shardwheel.ports import Message
from shardwheel.schedule import Schedule, schedule_of
from shardwheel.shard.messages import Writer
from shardwheel.times import END_MS
from shardwheel.timing import Timing, next_within
from shardwheel.topics import job_topic
from shardwheel.wheel import JOB, WAITING, Wheel


class Terms(NamedTuple):
    """What a job says beside its times; shared by all jobs that say the same."""

    topic: str
    jitter_ms: int
    grace_ms: int
    policy: Policy


@lru_cache(maxsize=4096)
def terms_of(jitter_ms: int, misfire: str, grace_ms: int, window_ms: int, pool: str, priority: int) -> Terms:
    """Of these fields of a `JobEntry`, which stand side by side in it."""
    return Terms(job_topic(pool, priority), jitter_ms, grace_ms, Policy(misfire, grace_ms, window_ms))


def _terms(entry: JobEntry) -> Terms:
    """A load asks this of every job: a slice, from `jitter_ms` to `priority`, is quicker than attributes."""
    return terms_of(*entry[8:14])


class Stand(NamedTuple):
    """What was fired before: through T, of all states of schedules with an xid below X.

    At a take-over the stored watermark and horizon; later the wheel's own stand and the feed's horizon.
    """

    fired_through_ms: int
    horizon_xid: int


class Holding:
    """One partition's wheel and columns."""

    def __init__(self, partition: int, topic_partitions: int, stand_ms: int) -> None:
        self.partition = partition
        self.wheel = Wheel(stand_ms)
        self._write = Writer(partition, topic_partitions)
        self._waiting: dict[int, WaitingExecution] = {}
        self._schedules: list[Schedule | None] = []
        self._terms: list[Terms | None] = []
        self._scheduled_ms = array("q")
        self._anchor_ms = array("q")
        self._last_ms = array("q")
        self._schedule_no = array("q")
        self._version = array("q")

    def __len__(self) -> int:
        return len(self.wheel)

    # --- in and out ----------------------------------------------------------------------------------

    def take_jobs(self, entries: Iterable[JobEntry], stand: Stand) -> None:
        """Take jobs in, each once a version. A state of a schedule that the stand's horizon knew goes on
        after its T; any other starts at its `effective_from`."""
        for entry in entries:
            self._take_job(entry, stand)

    def take_waiting(self, entries: Iterable[WaitingExecution]) -> None:
        """Take waiting executions in; one that is here already takes its latest attempt and time."""
        for entry in entries:
            row = self.wheel.insert(entry.execution_id, entry.due_ms, WAITING)
            self._grow(row + 1)
            self._waiting[row] = entry

    def _take_job(self, entry: JobEntry, stand: Stand) -> None:
        row = self.wheel.register.find(entry.job_id)
        if row is not None and self._version[row] >= entry.version:
            return
        if not entry.active:
            if row is not None:
                self._release(row)
            return
        if row is not None and self._schedule_no[row] == entry.schedule_no:
            self._terms[row] = _terms(entry)
            self._version[row] = entry.version
            return
        schedule = schedule_of(entry.schedule)
        first_ms = _first_time(schedule, entry, stand)
        if first_ms is None:
            if row is not None:
                self._release(row)
            return
        due_ms = fire_time(schedule, entry.job_id, first_ms, entry.anchor_ms, entry.jitter_ms)
        self._fill(self.wheel.insert(entry.job_id, due_ms, JOB), entry, schedule, first_ms)

    def _fill(self, row: int, entry: JobEntry, schedule: Schedule, first_ms: int) -> None:
        self._grow(row + 1)
        self._schedules[row] = schedule
        self._terms[row] = _terms(entry)
        self._scheduled_ms[row] = first_ms
        self._anchor_ms[row] = entry.anchor_ms
        self._last_ms[row] = END_MS if entry.last_ms is None else entry.last_ms
        self._schedule_no[row] = entry.schedule_no
        self._version[row] = entry.version

    def _grow(self, rows: int) -> None:
        missing = rows - len(self._schedules)
        if missing <= 0:
            return
        missing += len(self._schedules) >> 3
        self._schedules.extend([None] * missing)
        self._terms.extend([None] * missing)
        for column in (self._scheduled_ms, self._anchor_ms, self._last_ms, self._schedule_no, self._version):
            column.frombytes(bytes(8 * missing))

    # --- what is due ---------------------------------------------------------------------------------

    def due(self, now_ms: int, out: list[Message], backlog: list[Message]) -> int:
        """Advance to now. What is due goes to `out`, what is to be caught up to `backlog`; afterwards nothing
        with a fire time up to now is left in the wheel, so the partition's T may follow. Returns the oldest
        fire time that was due (now, if nothing was)."""
        wheel = self.wheel
        oldest_ms = now_ms
        while rows := wheel.advance(now_ms):
            oldest_ms = min(oldest_ms, wheel.due_ms[rows[0]])
            self._fire(rows, now_ms, out, backlog)
        return oldest_ms

    def _fire(self, rows: list[int], now_ms: int, out: list[Message], backlog: list[Message]) -> None:
        """Write a message for each row and give it its next time. Every fire of the system passes through
        this loop: what it uses at each turn is looked up once."""
        wheel, id_of, write = self.wheel, self.wheel.register.id_of, self._write.fire
        due_column, scheduled_column, anchors, lasts = (
            wheel.due_ms,
            self._scheduled_ms,
            self._anchor_ms,
            self._last_ms,
        )
        for row in rows:
            terms, schedule = self._terms[row], self._schedules[row]
            if terms is None or schedule is None:
                self._fire_waiting(row, out)
                continue
            due_ms, scheduled_ms, job_id = due_column[row], scheduled_column[row], id_of(row)
            if due_ms < now_ms - terms.grace_ms:
                scheduled_ms = self._fire_missed(row, job_id, schedule, terms, now_ms, backlog) - 1
            else:
                out.append(write(job_id, terms.topic, self._schedule_no[row], scheduled_ms, due_ms))
            next_ms = schedule.next_after(scheduled_ms, anchors[row])
            if next_ms is None or next_ms > lasts[row]:
                self._release(row)
                continue
            scheduled_column[row] = next_ms
            if terms.jitter_ms:
                next_ms = fire_time(schedule, job_id, next_ms, anchors[row], terms.jitter_ms)
            wheel.put(row, next_ms)

    def _fire_waiting(self, row: int, out: list[Message]) -> None:
        entry = self._waiting.pop(row)
        self.wheel.release(row)
        out.append(self._write.waiting(entry))

    def _release(self, row: int) -> None:
        """The row's number goes to a newcomer, who may be a waiting execution: it must find no job here."""
        self._terms[row] = self._schedules[row] = None
        self.wheel.release(row)

    def _fire_missed(
        self, row: int, job_id: bytes, schedule: Schedule, terms: Terms, now_ms: int, backlog: list[Message]
    ) -> int:
        """Write what becomes of the missed times; returns the first time that is not missed."""
        timing = Timing(schedule, self._anchor_ms[row], None, self._last_ms[row])
        first_ms, jitter_ms = self._scheduled_ms[row], terms.jitter_ms
        fresh_after_ms = now_ms - terms.grace_ms - 1
        until_ms = first_due_after(timing, job_id, jitter_ms, fresh_after_ms, first_ms, now_ms + 1)
        for span in fates(timing, job_id, jitter_ms, terms.policy, first_ms, until_ms, now_ms):
            backlog.extend(
                self._write.span(job_id, terms.topic, self._schedule_no[row], timing, jitter_ms, span)
            )
        return until_ms


def _first_time(schedule: Schedule, entry: JobEntry, stand: Stand) -> int | None:
    """The first scheduled time to fire. T compares with fire times, effective_from with scheduled ones."""
    if entry.schedule_xid >= stand.horizon_xid:
        after_ms = entry.effective_from_ms - 1
    elif not entry.jitter_ms:
        after_ms = max(entry.effective_from_ms - 1, stand.fired_through_ms)
    else:
        return _first_jittered_time(schedule, entry, stand)
    return next_within(schedule, after_ms, entry.anchor_ms, entry.start_ms, entry.last_ms)


def _first_jittered_time(schedule: Schedule, entry: JobEntry, stand: Stand) -> int | None:
    timing = Timing(schedule, entry.anchor_ms, entry.start_ms, entry.last_ms)
    first_ms = first_due_after(
        timing, entry.job_id, entry.jitter_ms, stand.fired_through_ms, entry.effective_from_ms, END_MS
    )
    return first_ms if first_ms < END_MS else None
