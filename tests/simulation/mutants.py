"""Mistakes, planted one at a time in our code: each turns one sentence of design.md off, and must be caught.

The list is that of shared/model/mutants.py, as far as this loop has the sentence at all. Left out: what
needs a standby, acknowledgements out of order (a producer here reports only a prefix), the claim by
version (a message carries no version), and what no seed has caught yet: a fresh X stored with an
acknowledged T, a watermark stored without a look at the epoch, a result of an old attempt that is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from shardwheel.execution import WAITING_STATES
from shardwheel.job import JobEntry, JobState
from shardwheel.memory import claim_statements, feed_statements, ownership, rows
from shardwheel.memory.connection import STATEMENTS, Given, Statement
from shardwheel.memory.rows import Execution
from shardwheel.memory.transaction import Transaction
from shardwheel.missed import first_due_after
from shardwheel.ports import Identity, PartitionState
from shardwheel.schedule import Schedule
from shardwheel.shard import holding, intake
from shardwheel.shard.holding import Stand
from shardwheel.shard.ledger import Ledger, Mark
from shardwheel.shard.owner import Owner
from shardwheel.store import jobs, settlement
from shardwheel.store.arrays import Uuid
from shardwheel.store.job_row import JobRow
from shardwheel.store.sql import sql
from shardwheel.times import END_MS
from shardwheel.timing import Timing
from tests.simulation import people

FOREVER_XID = 2**62
Mutant = Callable[[], Any]
MUTANTS: dict[str, Mutant] = {}


def mutant(name: str) -> Callable[[Mutant], Mutant]:
    def register(plant: Mutant) -> Mutant:
        MUTANTS[name] = plant
        return plant

    return register


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The mistake is in the code while the block runs."""
    with ExitStack() as stack:
        for change in MUTANTS[name]():
            stack.enter_context(change)
        yield


def _statement(name: str, function: Statement) -> Any:
    return patch.dict(STATEMENTS, {name: function})


# --- settling an old schedule -------------------------------------------------------------------------


@mutant("settle from T, not from the floor, and without the rule on X")
def settle_from_t() -> Sequence[Any]:
    def floor(transaction: Transaction, given: Given) -> list[Any]:
        (state,) = ownership.read_partitions(transaction, [given["partition"]])
        return [(state.fired_through_ms, state.fired_through_ms, FOREVER_XID)]

    return [_statement("floor", floor)]


@mutant("settle from the stored (T, X), not from the floor")
def settle_from_pair() -> Sequence[Any]:
    def floor(transaction: Transaction, given: Given) -> list[Any]:
        (state,) = ownership.read_partitions(transaction, [given["partition"]])
        return [(state.fired_through_ms, state.fired_through_ms, state.horizon_xid)]

    return [_statement("floor", floor)]


@mutant("pause and delete settle nothing")
def pause_settles_nothing() -> Sequence[Any]:
    def end_schedule(conn: Any, old: JobRow, state: JobState) -> None:
        conn.execute(sql("change_state"), {"job_id": Uuid(old.job_id), "state": state})

    return [patch.object(jobs, "_end_schedule", end_schedule)]


@mutant("an edit settles nothing")
def edit_settles_nothing() -> Sequence[Any]:
    settle = settlement.settle_old_schedule

    def only_skips(conn: Any, old: JobRow, until_ms: int, *, now_ms: int, skip_as: str | None) -> int:
        return settle(conn, old, until_ms, now_ms=now_ms, skip_as=skip_as) if skip_as else 0

    return [patch.object(jobs, "settle_old_schedule", only_skips)]


@mutant("resume settles the paused span")
def resume_settles() -> Sequence[Any]:
    resume = jobs.resume_job

    def resume_and_settle(conn: Any, tenant_id: str, job_id: bytes) -> JobRow:
        old = jobs.get_job(conn, tenant_id, job_id)
        new = resume(conn, tenant_id, job_id)
        if old.state == JobState.PAUSED:
            until_ms = new.effective_from_ms
            settlement.settle_old_schedule(conn, old, until_ms, now_ms=until_ms, skip_as=None)
        return new

    return [patch.object(people, "resume_job", resume_and_settle)]


# --- floor, watermark, take-over ----------------------------------------------------------------------


@mutant("the claim floor is a time only")
def floor_is_a_time() -> Sequence[Any]:
    store = STATEMENTS["store_floors"]

    def without_xid(transaction: Transaction, given: Given) -> list[Any]:
        return store(transaction, given | {"xids": [str(FOREVER_XID)] * len(given["xids"])})

    return [_statement("store_floors", without_xid)]


@mutant("a loss of Kafka does not reset the stored watermark")
def no_reset() -> Sequence[Any]:
    reset = ownership.reset_to_floor

    def keep(
        transaction: Transaction, seen: dict[int, int], owner: str, generation: str, identity: Identity
    ) -> list[PartitionState]:
        before = {state.partition: state for state in ownership.read_partitions(transaction, list(seen))}
        taken = []
        for state in reset(transaction, seen, owner, generation, identity):
            old = before[state.partition]
            kept = state._replace(fired_through_ms=old.fired_through_ms, horizon_xid=old.horizon_xid)
            transaction.put(ownership.TABLE, state.partition, kept)
            taken.append(kept)
        return taken

    return [patch.object(ownership, "reset_to_floor", keep)]


@mutant("a take-over ignores Kafka's generation")
def ignored_generation() -> Sequence[Any]:
    def is_present(self: Owner, state: PartitionState) -> bool:
        return bool(state.kafka_generation) and state.identity == self.identity

    return [patch.object(Owner, "_is_present", is_present)]


def _replaced_first_time(first_time: Callable[[Schedule, JobEntry, Stand], int | None]) -> Sequence[Any]:
    return [patch.object(holding, "_first_time", first_time)]


def _from_t(entry: JobEntry, schedule: Schedule, stand: Stand, first_ms: int, jitter_ms: int) -> int | None:
    timing = Timing(schedule, entry.anchor_ms, entry.start_ms, entry.last_ms)
    at_ms = first_due_after(timing, entry.job_id, jitter_ms, stand.fired_through_ms, first_ms, END_MS)
    return at_ms if at_ms < END_MS else None


@mutant("a take-over goes back before effective_from")
def not_clamped() -> Sequence[Any]:
    right = holding._first_time

    def first_time(schedule: Schedule, entry: JobEntry, stand: Stand) -> int | None:
        if entry.schedule_xid >= stand.horizon_xid:
            return right(schedule, entry._replace(effective_from_ms=entry.effective_from_ms - 10_000), stand)
        return _from_t(entry, schedule, stand, 0, entry.jitter_ms)

    return _replaced_first_time(first_time)


@mutant("a take-over compares T with scheduled times")
def nominal_times() -> Sequence[Any]:
    right = holding._first_time

    def first_time(schedule: Schedule, entry: JobEntry, stand: Stand) -> int | None:
        if entry.schedule_xid >= stand.horizon_xid:
            return right(schedule, entry, stand)
        return _from_t(entry, schedule, stand, entry.effective_from_ms, 0)

    return _replaced_first_time(first_time)


@mutant("no rule on schedule_xid: every job goes on after T")
def no_schedule_xid() -> Sequence[Any]:
    def first_time(schedule: Schedule, entry: JobEntry, stand: Stand) -> int | None:
        return _from_t(entry, schedule, stand, entry.effective_from_ms, entry.jitter_ms)

    return _replaced_first_time(first_time)


@mutant("a change is applied from now on, not from its effective_from")
def applied_from_now() -> Sequence[Any]:
    def from_now(fired_through_ms: int, horizon_xid: int) -> Stand:
        return Stand(fired_through_ms, FOREVER_XID)

    return [patch.object(intake, "Stand", from_now)]


@mutant("effective_from of a once in the past is now")
def past_is_now() -> Sequence[Any]:
    insert = rows.insert_job

    def from_now(transaction: Transaction, row: JobRow) -> JobRow:
        made = insert(transaction, row)._replace(effective_from_ms=rows.whole_now_ms(transaction))
        transaction.put(rows.JOBS, made.job_id, rows.StoredJob(made, transaction.xid))
        return made

    return [patch("shardwheel.memory.job_statements.insert_job", from_now)]


@mutant("the watermark is stored before the acknowledgement")
def before_the_ack() -> Sequence[Any]:
    tick = Ledger.tick

    def ticked(self: Ledger, ticket: int, mark: Mark) -> None:
        tick(self, ticket, mark)
        self.acknowledge(ticket)

    return [patch.object(Ledger, "tick", ticked)]


# --- the feed -----------------------------------------------------------------------------------------


@mutant("the feed is a sequence: what commits late is never seen")
def feed_is_a_sequence() -> Sequence[Any]:
    def is_visible(xid: int, text: str) -> bool:
        return xid < int(text.split(":")[1])

    return [patch.object(feed_statements, "is_visible", is_visible)]


@mutant("X is the snapshot's xmax")
def x_is_xmax() -> Sequence[Any]:
    def snapshot(transaction: Transaction, given: Given) -> list[Any]:
        ((text, _),) = right(transaction, given)
        return [(text, transaction.server.next_xid)]

    right = feed_statements.snapshot
    return [_statement("snapshot", snapshot), patch.object(feed_statements, "snapshot", snapshot)]


# --- the gate -----------------------------------------------------------------------------------------


@mutant("the claim does not look at schedule_no")
def any_schedule_no() -> Sequence[Any]:
    def may_write(said: Any, job: JobRow, row: Execution | None) -> bool:
        return row is None or (row.state in WAITING_STATES and row.attempt == said.attempt and not said.skip)

    return [patch.object(claim_statements, "may_write", may_write)]


@mutant("the claim takes what runs already")
def takes_what_runs() -> Sequence[Any]:
    def may_write(said: Any, job: JobRow, row: Execution | None) -> bool:
        if row is None:
            return bool(said.schedule_no == job.schedule_no)
        return row.state in (*WAITING_STATES, "running") and row.attempt == said.attempt and not said.skip

    return [patch.object(claim_statements, "may_write", may_write)]


@mutant("the claim does not lock the job")
def without_for_share() -> Sequence[Any]:
    def unlocked(transaction: Transaction, job_id: bytes) -> JobRow | None:
        found = transaction.get(rows.JOBS, job_id)
        return None if found is None else found.row

    return [patch.object(claim_statements, "locked_job", unlocked)]
