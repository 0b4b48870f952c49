"""Where a rebalance stands: what is not yet where the plan wants it, and if nothing goes on, why. Pure.

off           nothing moves by itself (`shardctl rebalance auto off`), and nothing is under way
ready         every partition is where the plan wants it
in_progress   some are on their way
stalled       some are on their way and none has arrived for a while: with the reason, and what to do
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shardwheel.coordinator.lead import next_plan
from shardwheel.coordinator.planning import Move, changes
from shardwheel.records import View

# A load of sixteen partitions takes a second or two with a million jobs; a lease ends after three.
STALLED_AFTER_MS = 30_000
# What a shard loads in a second, and how many partitions it is handed: on the careful side of what
# `shardctl bench move` showed on two busy cores (86 partitions with 100,000 jobs in 2.4 to 4.5 s).
LOADED_PER_S = 30_000
HANDED_OVER_PER_S = 40


class Progress(NamedTuple):
    state: str
    reason: str
    remedy: str
    moves: tuple[Move, ...]


def progress(view: View, now_ms: int, last_taken_ms: int) -> Progress:
    """`last_taken_ms`: when a partition was taken last, by the database's clock, as `now_ms` is."""
    moves = tuple(outstanding(view))
    away = _nobody(view)
    if away is not None:
        return Progress("stalled", *away, moves)
    if moves:
        since_ms = max(last_taken_ms, 0 if view.plan is None else view.plan.made_at_ms)
        if now_ms - since_ms <= STALLED_AFTER_MS:
            return Progress("in_progress", f"{len(moves)} partitions are on their way", "", moves)
        return Progress("stalled", *_why(view, moves), moves)
    if _planned_otherwise(view):
        return Progress("in_progress", "the leader is about to plan anew", "", moves)
    if view.rebalance_off:
        wanted = len(moves_to_balance(view))
        remedy = "say `shardctl rebalance` to level them" if wanted else ""
        return Progress("off", f"automatic rebalancing is off; {wanted} partitions would move", remedy, moves)
    return Progress("ready", "every partition is where the plan wants it", "", moves)


def outstanding(view: View) -> list[Move]:
    """Partitions that somebody else than the plan says owns, or nobody."""
    held = {partition: holder.shard_id for partition, holder in view.owners.items()}
    return [
        Move(partition, held.get(partition, ""), seat.owner)
        for partition, seat in enumerate(view.seats)
        if seat.owner and held.get(partition, "") != seat.owner
    ]


def moves_to_balance(view: View) -> list[Move]:
    """What `shardctl rebalance` would move: the leader's own plan without pins, against who owns now."""
    wished = view._replace(pins={}, rebalance_off=False)
    plan = next_plan(wished)
    return outstanding(wished if plan is None else wished._replace(plan=plan))


def _planned_otherwise(view: View) -> bool:
    """Whether the leader would let something move. (Standbys are its own affair.)"""
    plan = next_plan(view)
    return plan is not None and bool(changes(view.plan, plan))


def expected_s(moves: Iterable[Move], jobs: Mapping[int, int]) -> float:
    """How long these moves should take: each shard loads one after the other, all shards at once."""
    by_target: dict[str, float] = defaultdict(float)
    for move in moves:
        by_target[move.target] += jobs.get(move.partition, 0) / LOADED_PER_S + 1 / HANDED_OVER_PER_S
    return max(by_target.values(), default=0.0)


def _nobody(view: View) -> tuple[str, str] | None:
    if not view.members:
        return "no shard is alive", "start one: `shardctl shard`"
    if view.leader is None:
        return (
            "no shard leads",
            "wait a few seconds; if it stays so, ask `shardctl doctor` whether etcd is well",
        )
    if view.plan is None:
        return (
            "there is no plan yet",
            f"wait a second; if it stays so, look at the log of {view.leader.shard_id}",
        )
    return None


def _why(view: View, moves: Iterable[Move]) -> tuple[str, str]:
    """The most frequent cause first: who it is that does not go on, and at which step."""
    causes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for move in moves:
        causes[_cause(view, move)].append(move.partition)
    (what, remedy), partitions = max(causes.items(), key=lambda cause: (len(cause[1]), cause[0]))
    shown = ", ".join(map(str, partitions[:5])) + (", …" if len(partitions) > 5 else "")
    return f"{what} ({len(partitions)} partitions: {shown})", remedy


def _cause(view: View, move: Move) -> tuple[str, str]:
    ready = view.ready.get(move.partition)
    leader = "" if view.leader is None else view.leader.shard_id
    if move.target not in view.members:
        return (
            f"{move.target} is gone, and the leader {leader} has not planned without it",
            f"look at the log of {leader}; ending that process makes another one lead",
        )
    if not move.source:
        return (
            f"{move.target} has not taken what nobody owns",
            f"can it reach PostgreSQL? Ask `shardctl doctor`, and look at the log of {move.target}",
        )
    if ready is None or ready.shard_id != move.target:
        return (
            f"{move.target} has not loaded what it is to take from {move.source}",
            f"look at its log; ending {move.target} lets the leader plan without it",
        )
    return (
        f"{move.source} does not hand over what {move.target} is ready for",
        f"look at its log: is Kafka in reach? Ending {move.source} makes {move.target} take over",
    )
