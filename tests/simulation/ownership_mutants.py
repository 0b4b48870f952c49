"""Mistakes in owning, mirroring and handing over partitions, and in the nets below: sweep and catch-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from shardwheel.job import JobEntry
from shardwheel.memory import ownership
from shardwheel.memory.connection import STATEMENTS, Given
from shardwheel.memory.transaction import Transaction
from shardwheel.ports import PartitionState
from shardwheel.records import Holder, Seat, View
from shardwheel.shard import intake, orders
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.shard.intake import Intake
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.mirror import Mirror, Shadow
from shardwheel.shard.orders import Orders
from shardwheel.shard.table import Rows
from shardwheel.shard.ticker import Ticker
from tests.simulation import world
from tests.simulation.planting import FOREVER_XID, mutant, statement_replaced

# --- harmless by itself -------------------------------------------------------------------------------


def no_net() -> Sequence[Any]:
    """The sweep publishes nothing again that is long overdue: it would mend what was dropped, only later."""
    return [statement_replaced("sweep_overdue", lambda transaction, given: [])]


def slow_catch_up() -> Sequence[Any]:
    """Three messages a second: some are left when the next watermark is stored."""
    return [patch.dict(Ticker.__init__.__kwdefaults__, catch_up_per_s=3.0)]


# --- the standby --------------------------------------------------------------------------------------


@mutant("the mirror is kept when Kafka's data was lost, or T went back")
def mirror_of_another_ground() -> Sequence[Any]:
    def fits(self: Mirror, state: PartitionState) -> bool:
        return True

    return [patch.object(Mirror, "_fits", fits)]


@mutant("the mirror drops what waits and is due", given=no_net)
def mirror_drops_waits() -> Sequence[Any]:
    is_kept = Shadow._is_kept

    def none_is_kept(self: Shadow, rows: Rows, stand: Stand) -> NDArray[np.bool_]:
        return is_kept(self, rows, stand._replace(horizon_xid=FOREVER_XID))

    return [patch.object(Shadow, "_is_kept", none_is_kept)]


@mutant("the mirror stands on T alone")
def mirror_on_t_alone() -> Sequence[Any]:
    def take_jobs(self: Shadow, entries: Sequence[JobEntry], stands: Mapping[int, Stand]) -> None:
        on_t = {p: (self._stand or stand)._replace(horizon_xid=FOREVER_XID) for p, stand in stands.items()}
        Holding.take_jobs(self, entries, on_t)

    return [patch.object(Shadow, "take_jobs", take_jobs)]


@mutant("a promoted mirror adopts the stored X")
def stored_x_adopted() -> Sequence[Any]:
    wake = Mirror._wake

    def horizon_of(self: Intake, partition: int) -> int:
        return FOREVER_XID

    def woken(self: Mirror, mine: Mapping[int, PartitionState]) -> dict[int, Holding]:
        for partition, state in mine.items():
            self._intake._horizons[partition] = state.horizon_xid
            self._intake._snapshots[partition] = f"{state.horizon_xid}:{state.horizon_xid}:"
        return wake(self, mine)

    return [patch.object(Intake, "horizon_of", horizon_of), patch.object(Mirror, "_wake", woken)]


# --- owning -------------------------------------------------------------------------------------------


@mutant("a shard's name is used again while its former owner lives")
def one_name_for_all() -> Sequence[Any]:
    right = world.name_of

    def name_of(role: str, birth: int) -> str:
        return "shard" if "shard" in role else right(role, birth)

    return [patch.object(world, "name_of", name_of)]


@mutant("a refused owner whose key it is does not bump again")
def no_second_bump() -> Sequence[Any]:
    def about_mine(
        given: Orders, view: View, shard_id: str, partition: int, seat: Seat, holder: Holder
    ) -> None:
        if seat.owner != shard_id and seat.owner in view.members:
            given.release[partition] = holder.mod_revision

    return [patch.object(orders, "_about_mine", about_mine)]


# --- pins ---------------------------------------------------------------------------------------------


def _unpinned(self: Ledger, partition: int) -> None:
    """A pin that holds nothing."""


@mutant("a catch-up does not pin T", given=slow_catch_up)
def catch_up_without_pin() -> Sequence[Any]:
    advance = Ticker._advance

    def advanced(self: Ticker, now_ms: int) -> tuple[list[Any], int]:
        with patch.object(Ledger, "pin", _unpinned):
            return advance(self, now_ms)

    return [patch.object(Ticker, "_advance", advanced)]


@mutant("a hand-over does not pin T")
def hand_over_without_pin() -> Sequence[Any]:
    advance, pin = Ticker._advance, Ledger.pin

    def advanced(self: Ticker, now_ms: int) -> tuple[list[Any], int]:
        with patch.object(Ledger, "pin", pin):
            return advance(self, now_ms)

    return [patch.object(Ledger, "pin", _unpinned), patch.object(Ticker, "_advance", advanced)]


# --- feed and sweep -----------------------------------------------------------------------------------


@mutant("all partitions are read since the newest of their snapshots")
def newest_snapshot() -> Sequence[Any]:
    age = intake._age

    def youth(snapshot: str) -> tuple[int, int, int]:
        xmin, xmax, running = age(snapshot)
        return -xmin, -xmax, -running

    return [patch.object(intake, "_age", youth)]


@mutant("a job is completed at T, not at the claim floor")
def completed_at_t() -> Sequence[Any]:
    sweep = STATEMENTS["sweep_completed"]

    def at_t(transaction: Transaction, given: Given) -> list[Any]:
        get = transaction.get

        def found(table: str, key: Any) -> Any:
            row = get(table, key)
            if table != ownership.TABLE:
                return row
            return row._replace(floor_ms=row.fired_through_ms, floor_xid=row.horizon_xid)

        with patch.object(transaction, "get", found):
            return sweep(transaction, given)

    return [statement_replaced("sweep_completed", at_t)]
