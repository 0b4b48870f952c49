"""Mistakes in what holds executions, lets them go on, and gives their slots back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import patch

from shardwheel.limits import TaskName
from shardwheel.memory import (
    claim_statements,
    held_statements,
    rows,
    settle_statements,
    slots,
    task_statements,
)
from shardwheel.memory.connection import STATEMENTS, Given
from shardwheel.memory.hold_rows import (
    OVERLAP_SLOTS,
    PROBE,
    TASK_SLOTS,
    Breaker,
    LimitedType,
    OverlapSlot,
    TaskSlot,
)
from shardwheel.memory.rows import Execution
from shardwheel.memory.transaction import Transaction
from shardwheel.store import held
from tests.simulation.faults import Chaos
from tests.simulation.people import People
from tests.simulation.planting import mutant, statement_replaced

# --- giving slots back --------------------------------------------------------------------------------


@mutant("a crashed worker's slot is not freed")
def crash_keeps_slot() -> Sequence[Any]:
    free = rows.free_slots_of

    def but_not_after_a_crash(transaction: Transaction, old: Execution, new: Execution) -> None:
        if new.crashes == old.crashes:
            free(transaction, old, new)

    return [patch.object(rows, "free_slots_of", but_not_after_a_crash)]


@mutant("a job's slot is freed between two attempts")
def retry_frees_slot() -> Sequence[Any]:
    free = rows.free_slots_of

    def at_each_end(transaction: Transaction, old: Execution, new: Execution) -> None:
        free(transaction, old, new)
        slot = transaction.get(OVERLAP_SLOTS, new.job_id)
        if new.state == "retry_wait" and slot is not None and slot.execution_id == new.execution_id:
            transaction.put(OVERLAP_SLOTS, new.job_id, None)

    return [patch.object(rows, "free_slots_of", at_each_end)]


@mutant("what is cancelled or skipped keeps its slot")
def only_results_free() -> Sequence[Any]:
    free = rows.free_slots_of

    def of_runs(transaction: Transaction, old: Execution, new: Execution) -> None:
        if old.state == "running":
            free(transaction, old, new)

    return [patch.object(rows, "free_slots_of", of_runs)]


@mutant("a result of an old attempt frees the slot of the current one")
def stale_result_frees() -> Sequence[Any]:
    current = settle_statements.current

    def freed(transaction: Transaction, execution_id: bytes, attempt: int, token: bytes) -> Execution | None:
        found = current(transaction, execution_id, attempt, token)
        row: Execution | None = transaction.get(rows.EXECUTIONS, execution_id)
        if found is None and row is not None and row.slotted:
            rows.free_slots_of(transaction, row._replace(state="running"), row._replace(state="succeeded"))
        return found

    return [patch.object(settle_statements, "current", freed)]


@mutant("a hand-over gives the slot and forgets to let its new owner go on")
def lost_hand_over() -> Sequence[Any]:
    def only_the_slot(transaction: Transaction, job_id: bytes) -> bool:
        waiting = sorted(
            row
            for _, row in transaction.rows(rows.EXECUTIONS)
            if (row.state, row.reason, row.job_id) == ("held", "overlap", job_id)
        )
        if waiting:
            slot = OverlapSlot(job_id, waiting[0].partition, waiting[0].execution_id)
            transaction.put(OVERLAP_SLOTS, job_id, slot)
        return bool(waiting)

    return [patch.object(rows, "hand_on_job_slot", only_the_slot)]


@mutant("nobody hands on a slot, and the sweep does not look for one")
def no_hand_over() -> Sequence[Any]:
    def nobody(transaction: Transaction, job_id: bytes) -> bool:
        return False

    return [patch.object(module, "hand_on_job_slot", nobody) for module in (rows, held_statements)]


# --- taking them --------------------------------------------------------------------------------------


@mutant("the claim does not see that a slot is taken")
def taken_slots_are_free() -> Sequence[Any]:
    def of_all(transaction: Transaction, name: TaskName, numbers: Iterable[int]) -> list[TaskSlot]:
        found = [transaction.get(TASK_SLOTS, (name, number)) for number in numbers if number != PROBE]
        return [slot for slot in found if slot is not None] or free(transaction, name, numbers)

    free = slots.free_slots
    return [patch.object(slots, "free_slots", of_all)]


@mutant("a breaker is probed by two at once")
def two_probes() -> Sequence[Any]:
    def with_the_taken_one(
        transaction: Transaction, name: TaskName, numbers: Iterable[int]
    ) -> list[TaskSlot]:
        probe = transaction.get(TASK_SLOTS, (name, PROBE))
        return [probe] if PROBE in numbers and probe is not None else free(transaction, name, numbers)

    free = slots.free_slots
    sweep = held_statements.room_of

    def always_room(transaction: Transaction, given: Given, reason: str, name: TaskName) -> int:
        room = sweep(transaction, given, reason, name)
        breaker = slots.breaker_of(transaction, name)
        is_over = breaker is not None and (breaker.open_until_ms or 0) <= transaction.server.now_ms()
        return 1 if reason == "breaker_open" and is_over else room

    return [
        patch.object(slots, "free_slots", with_the_taken_one),
        patch.object(held_statements, "room_of", always_room),
    ]


@mutant("a job's slot is looked for, not taken by its key")
def looked_for() -> Sequence[Any]:
    def by_looking(transaction: Transaction, wanted: Sequence[slots.Wanted]) -> set[bytes]:
        taken = {row.job_id for _, row in transaction.rows(rows.EXECUTIONS) if row.state == "running"}
        return {one.execution_id for one in wanted if one.job_id not in taken}

    return [patch.object(claim_statements, "take_job_slots", by_looking)]


@mutant("each claim has a budget of its own")
def budget_of_ones_own() -> Sequence[Any]:
    def all_of_the_burst(transaction: Transaction, limits: LimitedType, most: int) -> int:
        return min(limits.burst or 0, most)

    return [patch.object(slots, "take_tokens", all_of_the_burst)]


def _slow_commits() -> Sequence[Any]:
    """And people who change limits, not jobs."""

    def pause_s(chaos: Chaos) -> float:
        return chaos._random.uniform(0, 1.5) if chaos._random.random() < 0.5 else 0.0

    return [
        patch.object(Chaos, "_commit_pause", pause_s),
        patch.object(People, "_edit", People._limit),
        patch.object(People, "_pause", People._pause_task),
        patch.object(People, "_resume", People._resume_task),
    ]


@mutant("the claim does not lock the task type", given=_slow_commits)
def unlocked_type() -> Sequence[Any]:
    return [patch.object(claim_statements, "locked_type", slots.type_of)]


# --- holding and letting go ---------------------------------------------------------------------------


def _forget(reason: str) -> Sequence[Any]:
    others = tuple(one for one in held.HELD_BY_TASK if one != reason)
    return [patch.object(held, "HELD_BY_TASK", others)]


@mutant("the sweep forgets who is held by a limit")
def forgets_concurrency() -> Sequence[Any]:
    return _forget("concurrency")


@mutant("the sweep forgets who is held by a breaker")
def forgets_breaker() -> Sequence[Any]:
    return _forget("breaker_open")


@mutant("nobody comes for what is held for want of a handler, nor lets it go")
def forgets_handler() -> Sequence[Any]:
    """Either is enough: workers that have the handler come for it; where all have it the sweep lets go."""
    return [*_forget("handler_unknown"), statement_replaced("held_for_workers", lambda *_: [])]


@mutant("what is released runs without a claim")
def runs_unclaimed() -> Sequence[Any]:
    def started(transaction: Transaction, found: list[Execution], most: int) -> list[Any]:
        now_ms = transaction.server.now_ms()
        for row in found[:most]:
            run = row._replace(state="running", reason=None, claim_token=bytes(16), lease_until_ms=now_ms)
            run = run._replace(timeout_at_ms=now_ms)
            rows.put_execution(transaction, run)
        return found[:most]

    return [patch.object(held_statements, "_release", started)]


@mutant("a breaker never closes")
def never_closes() -> Sequence[Any]:
    def still_open(transaction: Transaction, given: Given, breaker: Breaker, failures: int) -> None:
        """It stays what it is."""

    return [patch.object(task_statements, "judge_probation", still_open)]


@mutant("a breaker closes when its time is over, whatever the probe says")
def closes_by_itself() -> Sequence[Any]:
    judge = task_statements.judge_probation

    def always_well(transaction: Transaction, given: Given, breaker: Breaker, failures: int) -> None:
        judge(transaction, given, breaker, 0)

    return [patch.object(task_statements, "judge_probation", always_well)]


@mutant("an open breaker is not looked at")
def open_breaker_ignored() -> Sequence[Any]:
    def closed(transaction: Transaction, name: TaskName) -> Breaker | None:
        return None

    return [patch.object(claim_statements, "breaker_of", closed)]


@mutant("the retry budget counts no retries")
def no_budget() -> Sequence[Any]:
    settle_lock = STATEMENTS["settle_lock"]

    def without_retries(transaction: Transaction, given: Given) -> list[Any]:
        return [(*row[:-1], 0) for row in settle_lock(transaction, given)]

    return [statement_replaced("settle_lock", without_retries)]
