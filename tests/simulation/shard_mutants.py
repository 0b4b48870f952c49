"""Mistakes in what a shard does: floor and watermark, take-over, the feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from shardwheel.cycles import Cycles
from shardwheel.memory import feed_statements, ownership, rows
from shardwheel.memory.connection import STATEMENTS, Given
from shardwheel.memory.transaction import Transaction
from shardwheel.missed import first_due_after
from shardwheel.ports import Identity, PartitionState, Watermark
from shardwheel.shard import arrivals, holding, intake
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.ground import Ground
from shardwheel.shard.ledger import Ledger, Mark
from shardwheel.shard.owner import Owner
from shardwheel.shard.table import Records
from shardwheel.shard.terms import AllTerms, Times
from shardwheel.store.job_row import JobRow
from shardwheel.timing import Timing
from tests.simulation.planting import FOREVER_XID, mutant, statement_replaced

# --- floor, watermark, take-over ----------------------------------------------------------------------


@mutant("the claim floor is a time only")
def floor_is_a_time() -> Sequence[Any]:
    store = STATEMENTS["store_floors"]

    def without_xid(transaction: Transaction, given: Given) -> list[Any]:
        return store(transaction, given | {"xids": [str(FOREVER_XID)] * len(given["xids"])})

    return [statement_replaced("store_floors", without_xid)]


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
    def is_present(self: Owner, state: PartitionState, ground: Ground) -> bool:
        return bool(state.kafka_generation) and state.identity == ground.identity

    return [patch.object(Owner, "_is_present", is_present)]


def _first_times_of(changed: Callable[[Records, Mapping[int, Stand]], None]) -> Sequence[Any]:
    """Let first times be computed of jobs that were changed before."""
    right = arrivals.first_times

    def first_times(jobs: Records, stands: Mapping[int, Stand], terms: AllTerms) -> Times:
        jobs = jobs.copy()
        changed(jobs, stands)
        return right(jobs, stands, terms)

    return [patch.object(holding, "first_times", first_times)]


@mutant("a take-over goes back before effective_from")
def not_clamped() -> Sequence[Any]:
    def earlier(jobs: Records, stands: Mapping[int, Stand]) -> None:
        for job in jobs:
            is_known = job["schedule_xid"] < stands[int(job["partition"])].horizon_xid
            job["effective_from_ms"] = 0 if is_known else job["effective_from_ms"] - 10_000

    return _first_times_of(earlier)


@mutant("a take-over compares T with scheduled times")
def nominal_times() -> Sequence[Any]:
    def without_jitter(
        timing: Timing, job_id: bytes, jitter_ms: int, threshold_ms: int, first_ms: int, until_ms: int
    ) -> int:
        return first_due_after(timing, job_id, 0, threshold_ms, first_ms, until_ms)

    return [patch.object(arrivals, "first_due_after", without_jitter)]


@mutant("no rule on schedule_xid: every job goes on after T")
def no_schedule_xid() -> Sequence[Any]:
    def known(jobs: Records, stands: Mapping[int, Stand]) -> None:
        jobs["schedule_xid"] = -1

    return _first_times_of(known)


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


@mutant("acknowledgements count out of order")
def out_of_order() -> Sequence[Any]:
    def settle(self: Cycles) -> bool:
        landed = [flight for flight in self._flights if flight.landed]
        for flight in landed:
            self._flights.remove(flight)
            self._buffered -= len(flight.messages)
        ticket = max([self._acknowledged, *(flight.last_ticket for flight in landed)])
        if ticket == self._acknowledged:
            return False
        if self._on_acknowledged is not None:
            self._on_acknowledged(ticket)
        self._acknowledged = ticket
        self._waiters.unpark_all()
        return True

    return [patch.object(Cycles, "settle", settle)]


@mutant("T is acknowledged, X is fresh")
def fresh_x() -> Sequence[Any]:
    tick, watermarks = Ledger.tick, Ledger.watermarks
    fresh_xids: dict[Ledger, int] = {}

    def ticked(self: Ledger, ticket: int, mark: Mark) -> None:
        fresh_xids[self] = mark.horizon_xid
        tick(self, ticket, mark)

    def with_fresh_x(self: Ledger) -> list[Watermark]:
        return [mark._replace(horizon_xid=fresh_xids[self]) for mark in watermarks(self)]

    return [patch.object(Ledger, "tick", ticked), patch.object(Ledger, "watermarks", with_fresh_x)]


@mutant("a watermark is stored without a look at the epoch")
def epoch_unchecked() -> Sequence[Any]:
    store = ownership.store_watermarks

    def unfenced(transaction: Transaction, watermarks: Sequence[Watermark], identity: Identity) -> set[int]:
        states = ownership.read_partitions(transaction, [mark.partition for mark in watermarks])
        epochs = {state.partition: state.epoch for state in states}
        present = [mark._replace(epoch=epochs[mark.partition]) for mark in watermarks]
        return store(transaction, present, identity)

    return [patch.object(ownership, "store_watermarks", unfenced)]


@mutant("a new timeline of PostgreSQL is taken for the old one")
def timeline_ignored() -> Sequence[Any]:
    def same_system(self: Identity, other: object) -> bool:
        return isinstance(other, Identity) and self.system_identifier == other.system_identifier

    def other_system(self: Identity, other: object) -> bool:
        return not same_system(self, other)

    return [patch.object(Identity, "__eq__", same_system), patch.object(Identity, "__ne__", other_system)]


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
    return [statement_replaced("snapshot", snapshot), patch.object(feed_statements, "snapshot", snapshot)]
