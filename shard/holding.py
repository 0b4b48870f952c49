"""What a shard holds of some partitions: jobs and waiting executions, in one wheel, with columns beside it.

A job stands in the wheel at its next fire time; its row in the columns says which scheduled time that is.
`take_…` and `forget` are the only ways in and out, `due` the only way to the messages; none of them waits
for anything. All of it can be rebuilt from the tables: nothing here is worth saving.

Partitions that are loaded together share a holding: a tick visits one wheel, not 256. (With a wheel each, a
tick of 500 fires found two in each, and the visits cost three times as much as the fires.)

Columns instead of an object a job: at a million jobs Python's collector would walk a million objects, and
each would cost more than all columns together. What many jobs share (schedule, policy) is one object.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeVar

from shardwheel.errors import UsageError
from shardwheel.job import JobEntry, WaitingExecution
from shardwheel.missed import Policy, fates, fire_time, first_due_after
from shardwheel.ports import Message
from shardwheel.schedule import Schedule, schedule_of
from shardwheel.shard.messages import Writer
from shardwheel.times import END_MS
from shardwheel.timing import Timing, next_within
from shardwheel.topics import job_topic
from shardwheel.wheel import WAITING, Wheel

H = TypeVar("H", bound="Holding")

# Stands in the column of partitions for a row that holds nothing.
_NOBODY = 0xFFFF


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
    """The wheel and the columns of partitions that stand at the same time.

    `unreadable`: jobs whose schedule can't be read here, by id with partition and reason (a zone that this
    machine's tzdata does not have). They are left out; until they can be read, T of their partition may not
    be stored, or the times they have meanwhile would be lost.
    """

    def __init__(self, topic_partitions: int, stand_ms: int) -> None:
        self.wheel = Wheel(stand_ms)
        self._write = Writer(topic_partitions)
        self._waiting: dict[int, WaitingExecution] = {}
        self._counts: dict[int, int] = {}
        self.unreadable: dict[bytes, tuple[int, str]] = {}
        self._gone: set[int] = set()
        self._cleared = 0
        self._schedules: list[Schedule | None] = []
        self._terms: list[Terms | None] = []
        self._partitions = array("H")
        self._scheduled_ms = array("q")
        self._anchor_ms = array("q")
        self._last_ms = array("q")
        self._schedule_no = array("q")
        self._version = array("q")

    def __len__(self) -> int:
        return len(self.wheel)

    def count(self, partition: int) -> int:
        """How many entries of this partition are here."""
        return self._counts.get(partition, 0)

    # --- in and out ----------------------------------------------------------------------------------

    def take_jobs(self, entries: Iterable[JobEntry], stand: Stand) -> None:
        """Take jobs in, each once a version. A state of a schedule that the stand's horizon knew goes on
        after its T; any other starts at its `effective_from`."""
        find, versions = self.wheel.register.find, self._version
        starting: list[JobEntry] = []
        for entry in entries:
            if self.unreadable:
                self.unreadable.pop(entry.job_id, None)
            row = find(entry.job_id)
            if row is None:
                if entry.active:
                    starting.append(entry)
            elif versions[row] < entry.version and self._starts_over(row, entry):
                starting.append(entry)
        self._start(starting, stand)

    def take_waiting(self, entries: Iterable[WaitingExecution]) -> None:
        """Take waiting executions in; one that is here already takes its latest attempt and time."""
        for entry in entries:
            row = self.wheel.insert(entry.execution_id, entry.due_ms, WAITING)
            self._grow(row + 1)
            self._belongs(row, entry.partition)
            self._waiting[row] = entry

    def forget(self, partitions: Collection[int]) -> None:
        """Let go of all entries of these partitions: somebody else holds them now. At once none of them is
        due here any more; `clear_away` removes them, so that a move of many does not wait for that."""
        self._gone.update(partitions)
        self._cleared = 0
        self.unreadable = {job: found for job, found in self.unreadable.items() if found[0] not in self._gone}

    def clear_away(self, most: int) -> bool:
        """Look at up to so many rows for what was forgotten, and remove it; whether there is more to do."""
        if not self._gone:
            return False
        rows = range(self._cleared, min(self._cleared + most, len(self._partitions)))
        self._without_forgotten(rows)
        self._cleared = rows.stop
        if rows.stop < len(self._partitions):
            return True
        self._gone.clear()
        return False

    def _without_forgotten(self, rows: Iterable[int]) -> list[int]:
        """The rows that were not forgotten; the others are removed."""
        kept = []
        for row in rows:
            if self._partitions[row] in self._gone:
                self._waiting.pop(row, None)
                self._release(row)
            else:
                kept.append(row)
        return kept

    def _starts_over(self, row: int, entry: JobEntry) -> bool:
        """Take a newer version of a job that is here; true if its schedule is another one."""
        if not entry.active:
            self._release(row)
        elif self._schedule_no[row] != entry.schedule_no:
            self._release(row)
            return True
        else:
            self._terms[row] = _terms(entry)
            self._version[row] = entry.version
        return False

    def _start(self, entries: Iterable[JobEntry], stand: Stand) -> None:
        """Put jobs that are not here at their first times. A load sends all its jobs through this."""
        insert, schedules = self.wheel.insert, self._schedules
        for entry in entries:
            try:
                schedule = schedule_of(entry.schedule)
            except UsageError as error:
                self.unreadable[entry.job_id] = entry.partition, str(error)
                continue
            first_ms = _first_time(schedule, entry, stand)
            if first_ms is None:
                continue
            due_ms = first_ms
            if entry.jitter_ms:
                due_ms = fire_time(schedule, entry.job_id, first_ms, entry.anchor_ms, entry.jitter_ms)
            row = insert(entry.job_id, due_ms)
            if row >= len(schedules):
                self._grow(row + 1)
            self._fill(row, entry, schedule, first_ms)

    def _fill(self, row: int, entry: JobEntry, schedule: Schedule, first_ms: int) -> None:
        self._belongs(row, entry.partition)
        self._schedules[row] = schedule
        self._terms[row] = _terms(entry)
        self._scheduled_ms[row] = first_ms
        self._anchor_ms[row] = entry.anchor_ms
        self._last_ms[row] = END_MS if entry.last_ms is None else entry.last_ms
        self._schedule_no[row] = entry.schedule_no
        self._version[row] = entry.version

    def _belongs(self, row: int, partition: int) -> None:
        if self._partitions[row] == _NOBODY:
            self._partitions[row] = partition
            self._counts[partition] = self._counts.get(partition, 0) + 1

    def _grow(self, rows: int) -> None:
        missing = rows - len(self._schedules)
        if missing <= 0:
            return
        missing += len(self._schedules) >> 3
        self._schedules.extend([None] * missing)
        self._terms.extend([None] * missing)
        self._partitions.frombytes(b"\xff" * (2 * missing))
        for column in (self._scheduled_ms, self._anchor_ms, self._last_ms, self._schedule_no, self._version):
            column.frombytes(bytes(8 * missing))

    # --- what is due ---------------------------------------------------------------------------------

    def due(self, now_ms: int, out: list[Message], backlog: list[tuple[int, Message]]) -> int:
        """Advance to now. What is due goes to `out`, what is to be caught up to `backlog`, each with its
        partition; afterwards nothing with a fire time up to now is left in the wheel, so T may follow.
        Returns the oldest fire time that was due (now, if nothing was)."""
        wheel = self.wheel
        oldest_ms = now_ms
        while rows := wheel.advance(now_ms):
            if self._gone and not (rows := self._without_forgotten(rows)):
                continue
            oldest_ms = min(oldest_ms, wheel.due_ms[rows[0]])
            self._fire(rows, now_ms, out, backlog)
        return oldest_ms

    def _fire(
        self, rows: list[int], now_ms: int, out: list[Message], backlog: list[tuple[int, Message]]
    ) -> None:
        """Write a message for each row and give it its next time. Every fire of the system passes through
        this loop: what it uses at each turn is looked up once."""
        wheel = self.wheel
        id_of, put, write, send = wheel.register.id_of, wheel.put, self._write.fire, out.append
        due_column, scheduled_column, anchors, lasts = (
            wheel.due_ms,
            self._scheduled_ms,
            self._anchor_ms,
            self._last_ms,
        )
        schedules, all_terms, partitions, numbers = (
            self._schedules,
            self._terms,
            self._partitions,
            self._schedule_no,
        )
        for row in rows:
            terms, schedule = all_terms[row], schedules[row]
            if terms is None or schedule is None:
                self._fire_waiting(row, out)
                continue
            topic, jitter_ms, grace_ms, _ = terms
            due_ms, scheduled_ms, job_id = due_column[row], scheduled_column[row], id_of(row)
            if due_ms < now_ms - grace_ms:
                scheduled_ms = self._fire_missed(row, job_id, schedule, terms, now_ms, backlog) - 1
            else:
                send(write(job_id, partitions[row], topic, numbers[row], scheduled_ms, due_ms))
            anchor_ms = anchors[row]
            next_ms = schedule.next_after(scheduled_ms, anchor_ms)
            if next_ms is None or next_ms > lasts[row]:
                self._release(row)
                continue
            scheduled_column[row] = next_ms
            if jitter_ms:
                next_ms = fire_time(schedule, job_id, next_ms, anchor_ms, jitter_ms)
            put(row, next_ms)

    def _fire_waiting(self, row: int, out: list[Message]) -> None:
        entry = self._waiting.pop(row)
        self._release(row)
        out.append(self._write.waiting(entry))

    def _release(self, row: int) -> None:
        """The row's number goes to a newcomer, who may be a waiting execution: it must find no job here."""
        self._terms[row] = self._schedules[row] = None
        self._counts[self._partitions[row]] -= 1
        self._partitions[row] = _NOBODY
        self.wheel.release(row)

    def _fire_missed(
        self,
        row: int,
        job_id: bytes,
        schedule: Schedule,
        terms: Terms,
        now_ms: int,
        backlog: list[tuple[int, Message]],
    ) -> int:
        """Write what becomes of the missed times; returns the first time that is not missed."""
        timing = Timing(schedule, self._anchor_ms[row], None, self._last_ms[row])
        first_ms, jitter_ms = self._scheduled_ms[row], terms.jitter_ms
        fresh_after_ms = now_ms - terms.grace_ms - 1
        until_ms = first_due_after(timing, job_id, jitter_ms, fresh_after_ms, first_ms, now_ms + 1)
        partition, schedule_no = self._partitions[row], self._schedule_no[row]
        for span in fates(timing, job_id, jitter_ms, terms.policy, first_ms, until_ms, now_ms):
            written = self._write.span(job_id, partition, terms.topic, schedule_no, timing, jitter_ms, span)
            backlog.extend((partition, message) for message in written)
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


def take_away(holdings: dict[int, H], partitions: Iterable[int]) -> list[int]:
    """Take these partitions out of the map and out of holdings that others share; those that were there.
    A holding that loses its last partition goes as a whole, without a look at its rows."""
    gone = [partition for partition in partitions if partition in holdings]
    left = {holdings.pop(partition) for partition in gone}
    for holding in left.intersection(holdings.values()):
        holding.forget(gone)
    return gone
