"""Taking slots and tokens: twins of the functions of 0010_holds.sql that the claim calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shardwheel.limits import TaskName
from shardwheel.memory.hold_rows import (
    OVERLAP_SLOTS,
    PROBE,
    TASK_BREAKERS,
    TASK_BUDGETS,
    TASK_SLOTS,
    TASK_TYPES,
    Breaker,
    Budget,
    LimitedType,
    OverlapSlot,
    TaskSlot,
)
from shardwheel.memory.rows import EXECUTIONS, is_free
from shardwheel.memory.transaction import RowLockedError, Transaction

# No row has this key.
WHOLE_TABLE = None


class Wanted(NamedTuple):
    """An execution of a job that must not overlap."""

    execution_id: bytes
    job_id: bytes
    partition: int


def locked_type(transaction: Transaction, name: TaskName) -> LimitedType:
    """FOR SHARE, as of the claim. Without a row it only waits for whoever is making one."""
    if transaction.get(TASK_TYPES, name) is not None:
        transaction.lock(TASK_TYPES, name)
    elif not is_free(transaction, TASK_TYPES, WHOLE_TABLE):
        raise RowLockedError(transaction.server.row_locks[TASK_TYPES, WHOLE_TABLE])
    return type_of(transaction, name)


def lock_whole_table(transaction: Transaction) -> None:
    """LOCK TABLE task_types: claims under way end first, and the next ones wait."""
    transaction.lock(TASK_TYPES, WHOLE_TABLE)
    for other in transaction.server.open_transactions:
        if other is not transaction and other.has_written(EXECUTIONS):
            raise RowLockedError(other)


def type_of(transaction: Transaction, name: TaskName) -> LimitedType:
    row: LimitedType | None = transaction.get(TASK_TYPES, name)
    return row or LimitedType(name)


def breaker_of(transaction: Transaction, name: TaskName) -> Breaker | None:
    """None: closed."""
    row: Breaker | None = transaction.get(TASK_BREAKERS, name)
    return None if row is None or row.open_until_ms is None else row


def take_job_slots(transaction: Transaction, wanted: Sequence[Wanted]) -> set[bytes]:
    """Those that have their job's slot, now or already. The oldest comes first."""
    for one in sorted(wanted, key=lambda one: (one.job_id, one.execution_id)):
        transaction.lock(OVERLAP_SLOTS, one.job_id)  # Wait for whoever is just giving it back.
        if transaction.get(OVERLAP_SLOTS, one.job_id) is None:
            slot = OverlapSlot(one.job_id, one.partition, one.execution_id)
            transaction.put(OVERLAP_SLOTS, one.job_id, slot)
    slots = [transaction.get(OVERLAP_SLOTS, one.job_id) for one in wanted]
    return {slot.execution_id for slot in slots} & {one.execution_id for one in wanted}


def admit(
    transaction: Transaction, name: TaskName, wanted: Sequence[bytes]
) -> dict[bytes, tuple[str, str | None]]:
    """Which may run now, the first ones first, and why the others are held. Whoever runs has a slot, if the
    type has slots."""
    limits = type_of(transaction, name)
    probing = breaker_of(transaction, name) is not None
    room, refusal = len(wanted), ""
    slots: list[TaskSlot] = []
    probes: list[TaskSlot] = []
    if limits.max_running is not None:
        slots = free_slots(transaction, name, range(1, limits.max_running + 1))[:room]
        room, refusal = len(slots), "concurrency"
    if probing and room > 0:
        probes = free_slots(transaction, name, [PROBE])
        room, refusal = len(probes), "breaker_open"
    if limits.rate_per_s is not None and room > 0:
        granted = take_tokens(transaction, limits, room)
        if granted < room:
            room, refusal = granted, "rate_limit"
    for slot, execution_id in [*zip(slots[:room], wanted), *zip(probes[:room], wanted)]:  # noqa: B905
        transaction.put(TASK_SLOTS, (name, slot.slot_no), slot._replace(execution_id=execution_id))
    return {
        execution_id: ("running", None) if place < room else ("held", refusal)
        for place, execution_id in enumerate(wanted)
    }


def free_slots(transaction: Transaction, name: TaskName, numbers: Iterable[int]) -> list[TaskSlot]:
    """Those of these that nobody has, and that nobody is just taking or giving back."""
    slots = [transaction.get(TASK_SLOTS, (name, number)) for number in numbers]
    return [
        slot
        for slot in slots
        if slot is not None
        and slot.execution_id is None
        and is_free(transaction, TASK_SLOTS, (name, slot.slot_no))
    ]


def take_tokens(transaction: Transaction, limits: LimitedType, most: int) -> int:
    transaction.lock(TASK_BUDGETS, limits.name)
    budget: Budget = transaction.get(TASK_BUDGETS, limits.name)
    now_ms = transaction.server.now_ms()
    there = budget.tokens_at(now_ms, limits)
    granted = min(int(there), most)
    transaction.put(TASK_BUDGETS, limits.name, Budget(limits.name, there - granted, now_ms))
    return granted
