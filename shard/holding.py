"""What a shard holds of some partitions: jobs and waiting executions, in one wheel, with records beside it.

A job stands in the wheel at its next fire time; its record says which scheduled time that is. `take_…` and
`forget` are the only ways in and out, `due` the only way to the messages; none of them waits for anything.
All of it can be rebuilt from the tables: nothing here is worth saving.

Partitions that are loaded together share a holding: a tick visits one wheel, not 256. (With a wheel each, a
tick of 500 fires found two in each, and the visits cost three times as much as the fires.)

What comes in and what is due is worked on a batch at a time, column by column (decision 8); only what is
rare, a missed time or one with jitter, is looked at alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from shardwheel.errors import UsageError
from shardwheel.job import JobEntry, WaitingExecution
from shardwheel.missed import fates, first_due_after
from shardwheel.ports import Message
from shardwheel.shard.arrivals import Stand, fire_times, first_times, records_of
from shardwheel.shard.messages import Writer
from shardwheel.shard.table import Records, Rows, Table
from shardwheel.shard.terms import NOBODY, Times, said_by
from shardwheel.times import END_MS
from shardwheel.timing import Timing
from shardwheel.wheel import WAITING, Wheel

H = TypeVar("H", bound="Holding")


class Holding:
    """The wheel and the records of partitions that stand at the same time.

    `unreadable`: jobs whose schedule can't be read here, by id with partition and reason (a zone that this
    machine's tzdata does not have). They are left out; until they can be read, T of their partition may not
    be stored, or the times they have meanwhile would be lost.

    `impossible`: waiting executions whose due time no wheel has, in the same way. They keep their rows, so T
    need not wait for them.
    """

    def __init__(self, topic_partitions: int, stand_ms: int) -> None:
        self.wheel = Wheel(stand_ms)
        self.unreadable: dict[bytes, tuple[int, str]] = {}
        self.impossible: dict[bytes, tuple[int, str]] = {}
        self._table = Table()
        self._waiting: dict[int, WaitingExecution] = {}
        self._write = Writer(topic_partitions)
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self.wheel)

    def count(self, partition: int) -> int:
        """How many entries of this partition are here."""
        return self._table.count(partition)

    # --- in and out ----------------------------------------------------------------------------------

    def take_jobs(self, entries: Sequence[JobEntry], stands: Mapping[int, Stand]) -> None:
        """Take jobs in, each once a version, and each at most once a call. A state of a schedule that its
        partition's horizon knew goes on after that one's T; any other starts at its `effective_from`."""
        if self.unreadable:
            for entry in entries:
                self.unreadable.pop(entry.job_id, None)
        rows = self.wheel.register.find_all([entry.job_id for entry in entries])
        starting = [
            entry
            for entry, row in zip(entries, rows, strict=True)
            if (entry.active if row is None else self._starts_over(row, entry))
        ]
        if starting:
            self._start(starting, stands)
            self._table.tidy()

    def take_waiting(self, entries: Sequence[WaitingExecution]) -> None:
        """Take waiting executions in; one that is here already takes its latest attempt and time."""
        entries = self._possible(entries)
        keys, dues_ms = [entry.execution_id for entry in entries], [entry.due_ms for entry in entries]
        rows = self.wheel.load(keys, dues_ms, WAITING)
        self._table.assign(np.array(rows, np.int64), np.array([one.partition for one in entries], np.int64))
        self._waiting.update(zip(rows, entries, strict=True))

    def _possible(self, entries: Sequence[WaitingExecution]) -> Sequence[WaitingExecution]:
        """Set aside what no wheel takes: one row must not end the shard, and the next one that loads it."""
        if self.impossible:
            for entry in entries:
                self.impossible.pop(entry.execution_id, None)
        strange = [entry for entry in entries if not 0 <= entry.due_ms < END_MS]
        if not strange:
            return entries
        self.impossible |= {one.execution_id: (one.partition, f"due at {one.due_ms} ms") for one in strange}
        rows = self.wheel.register.find_all([entry.execution_id for entry in strange])
        self._remove(np.array([row for row in rows if row is not None], np.int64))
        return [entry for entry in entries if entry.execution_id not in self.impossible]

    def forget(self, partitions: Collection[int]) -> None:
        """Let go of all entries of these partitions: somebody else holds them now. At once none of them is
        due here any more; `clear_away` removes them, so that a move of many does not wait for that."""
        self._gone.update(partitions)
        self.unreadable = {job: found for job, found in self.unreadable.items() if found[0] not in self._gone}
        self.impossible = {one: found for one, found in self.impossible.items() if found[0] not in self._gone}

    def clear_away(self, most: int) -> bool:
        """Remove up to so many entries that were forgotten; whether there may be more."""
        if not self._gone:
            return False
        rows = self._table.rows_of(self._gone)[:most]
        self._remove(rows)
        if len(rows) < most:
            self._gone.clear()
        return bool(self._gone)

    def _without_forgotten(self, rows: Rows) -> Rows:
        """The rows that were not forgotten; the others are removed."""
        is_gone = np.isin(self._table.records["partition"][rows], list(self._gone))
        self._remove(rows[is_gone])
        return rows[~is_gone]

    def _remove(self, rows: Rows) -> None:
        for row in rows.tolist():
            self._waiting.pop(row, None)
        self._release(rows)

    def _starts_over(self, row: int, entry: JobEntry) -> bool:
        """Take a newer version of a job that is here; true if its schedule is another one."""
        record = self._table.records[row : row + 1]
        if record["version"][0] >= entry.version:
            return False
        if not entry.active or record["schedule_no"][0] != entry.schedule_no:
            self._release(np.array([row], np.int64))
            return entry.active
        record["terms"] = self._table.terms.number_of(said_by(entry))
        record["version"] = entry.version
        return False

    def _start(self, entries: Sequence[JobEntry], stands: Mapping[int, Stand]) -> None:
        """Put jobs that are not here at their first times. A load sends all its jobs through this."""
        terms = self._table.terms
        numbers = [
            self._terms_of(entry) if number is None else number
            for entry, number in zip(entries, terms.find_all(entries), strict=True)
        ]
        jobs = records_of(entries, numbers)
        jobs = jobs[jobs["terms"] != NOBODY]
        jobs["scheduled_ms"] = first_times(jobs, stands, terms)
        jobs = jobs[jobs["scheduled_ms"] < END_MS]
        dues_ms = fire_times(jobs["job_id"], jobs, jobs["scheduled_ms"], terms)
        rows = self.wheel.load(jobs["job_id"].tolist(), dues_ms)
        self._table.fill(np.array(rows, np.int64), jobs)

    def _terms_of(self, entry: JobEntry) -> int:
        """The number of terms that are new here. If they can't be read, the job is left out and named."""
        try:
            return self._table.terms.number_of(said_by(entry))
        except UsageError as error:
            self.unreadable[entry.job_id] = entry.partition, str(error)
            return NOBODY

    def _release(self, rows: Rows) -> None:
        self._table.clear(rows)
        for row in rows.tolist():
            self.wheel.release(row)

    # --- what is due ---------------------------------------------------------------------------------

    def due(self, now_ms: int, out: list[Message], backlog: list[tuple[int, Message]]) -> int:
        """Advance to now. What is due goes to `out`, what is to be caught up to `backlog`, each with its
        partition; afterwards nothing with a fire time up to now is left in the wheel, so T may follow.
        Returns the oldest fire time that was due (now, if nothing was). What came in late, such as an
        execution that was held, is as old as the last advance: no tick before could have fired it."""
        wheel = self.wheel
        oldest_ms, stand_ms = now_ms, wheel.stand_ms
        while due := wheel.advance(now_ms):
            rows = np.array(due, np.int64)
            if self._gone:
                rows = self._without_forgotten(rows)
            if len(rows):
                oldest_ms = min(oldest_ms, max(stand_ms, wheel.due_ms[int(rows[0])]))
                self._fire(rows, now_ms, out, backlog)
        return oldest_ms

    def _fire(self, rows: Rows, now_ms: int, out: list[Message], backlog: list[tuple[int, Message]]) -> None:
        """Write a message for each row and give it its next time. Every fire of the system passes through."""
        jobs, dues_ms = self._table.records.take(rows), self.wheel.dues_of(rows)
        is_job = jobs["terms"] != NOBODY
        if not is_job.all():
            out.extend(map(self._fire_waiting, rows[~is_job].tolist()))
            rows, jobs, dues_ms = rows[is_job], jobs[is_job], dues_ms[is_job]
        job_ids = self.wheel.register.ids_of(rows)
        after_ms = jobs["scheduled_ms"]
        missed = dues_ms < now_ms - self._table.terms.graces_ms(jobs["terms"])
        if missed.any():
            fresh = ~missed
            self._write_fires(job_ids[fresh], jobs[fresh], dues_ms[fresh], out)
            for at in np.flatnonzero(missed).tolist():
                after_ms[at] = self._fire_missed(job_ids[at].item(), jobs[at], now_ms, backlog) - 1
        else:
            self._write_fires(job_ids, jobs, dues_ms, out)
        self._go_on(rows, job_ids, jobs, after_ms)

    def _write_fires(self, job_ids: Records, jobs: Records, dues_ms: Times, out: list[Message]) -> None:
        topics = self._table.terms.topics(jobs["terms"])
        numbers, scheduled_ms = jobs["schedule_no"], jobs["scheduled_ms"]
        out.extend(self._write.fires(job_ids, jobs["partition"], topics, numbers, scheduled_ms, dues_ms))

    def _go_on(self, rows: Rows, job_ids: Records, jobs: Records, after_ms: Times) -> None:
        """Put jobs that came out of the wheel at their first times after these; what is over leaves."""
        table = self._table
        next_ms = table.terms.next_times(jobs["terms"], after_ms, jobs["anchor_ms"])
        is_over = (next_ms > jobs["last_ms"]) | (next_ms >= END_MS)
        if is_over.any():
            self._release(rows[is_over])
            goes_on = ~is_over
            rows, job_ids, jobs, next_ms = rows[goes_on], job_ids[goes_on], jobs[goes_on], next_ms[goes_on]
        table.records["scheduled_ms"][rows] = next_ms
        self.wheel.put_many(rows, fire_times(job_ids, jobs, next_ms, table.terms))

    def _fire_waiting(self, row: int) -> Message:
        entry = self._waiting.pop(row)
        self._release(np.array([row], np.int64))
        return self._write.waiting(entry)

    def _fire_missed(
        self, job_id: bytes, job: np.void, now_ms: int, backlog: list[tuple[int, Message]]
    ) -> int:
        """Write what becomes of the missed times; returns the first time that is not missed."""
        terms = self._table.terms[int(job["terms"])]
        timing = Timing(terms.schedule, int(job["anchor_ms"]), None, int(job["last_ms"]))
        first_ms, jitter_ms = int(job["scheduled_ms"]), terms.jitter_ms
        fresh_after_ms = now_ms - terms.policy.grace_ms - 1
        until_ms = first_due_after(timing, job_id, jitter_ms, fresh_after_ms, first_ms, now_ms + 1)
        partition, schedule_no = int(job["partition"]), int(job["schedule_no"])
        for span in fates(timing, job_id, jitter_ms, terms.policy, first_ms, until_ms, now_ms):
            written = self._write.span(job_id, partition, terms.topic, schedule_no, timing, jitter_ms, span)
            backlog.extend((partition, message) for message in written)
        return until_ms


def take_away(holdings: dict[int, H], partitions: Iterable[int]) -> list[int]:
    """Take these partitions out of the map and out of holdings that others share; those that were there.
    A holding that loses its last partition goes as a whole, without a look at its rows."""
    gone = [partition for partition in partitions if partition in holdings]
    left = {holdings.pop(partition) for partition in gone}
    for holding in left.intersection(holdings.values()):
        holding.forget(gone)
    return gone
