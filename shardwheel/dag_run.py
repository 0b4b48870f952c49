"""A DAG's run as values: what a task's end means to its children, and what all ends mean to the run. Pure.

A child waits until every parent is over, then it is looked at what their ends mean:

    succeeded, force_completed, skipped by hand            SATISFIED   the child may run
    dead, cancelled, upstream_failed, run_failed           FAILED      the child is upstream_failed
    skipped for any other reason (expired, deleted, …)     SKIPPED     the child is upstream_skipped

One failed parent outweighs a skipped one, and a skipped one those that are satisfied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from shardwheel.execution import TERMINAL_STATES

UPSTREAM_FAILED = "upstream_failed"
UPSTREAM_SKIPPED = "upstream_skipped"
RUN_FAILED = "run_failed"
# Skipped by a person: its children run as if it had succeeded, or are skipped as well.
SKIPPED_BY_HAND = "skipped_by_hand"
SKIPPED_WITH_CHILDREN = "skipped_with_children"
# It was skipped and is not any more: it waits for its parents again.
PENDING_AGAIN = "pending_again"
# Why a run goes nowhere, while what still runs of it ends.
FAILED_FAST = "failed_fast"

_FAILED_REASONS = frozenset({UPSTREAM_FAILED, RUN_FAILED})


class Verdict(Enum):
    """What a task's end means to its children."""

    SATISFIED = "satisfied"
    FAILED = "failed"
    SKIPPED = "skipped"


def verdict_of(state: str, reason: str | None) -> Verdict:
    if state in ("succeeded", "force_completed") or reason == SKIPPED_BY_HAND:
        return Verdict.SATISFIED
    if state in ("dead", "cancelled") or reason in _FAILED_REASONS:
        return Verdict.FAILED
    return Verdict.SKIPPED


class Ended(NamedTuple):
    """A task of a run, or one item of it, that is over."""

    run_id: bytes
    task_id: bytes
    item_no: int | None
    state: str
    reason: str | None

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.state, self.reason)


class TaskStand(NamedTuple):
    """A task of a run as it stands; `state` None: it waits for its parents. `is_untold`: it is over, and its
    run has not been told (`dag_put_off`)."""

    task_id: bytes
    key: str
    fan_out: bool
    state: str | None
    reason: str | None
    is_untold: bool = False

    @property
    def is_pending(self) -> bool:
        return self.state is None or self.reason == PENDING_AGAIN

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL_STATES and not self.is_pending and not self.is_untold


class Edge(NamedTuple):
    parent_id: bytes
    child_id: bytes


class Readiness(NamedTuple):
    """How many of a child's parents are not over, and how those that are did not succeed."""

    pending: int = 0
    failed: int = 0
    skipped: int = 0

    def after(self, verdict: Verdict) -> Readiness:
        return Readiness(
            self.pending - 1,
            self.failed + (verdict is Verdict.FAILED),
            self.skipped + (verdict is Verdict.SKIPPED),
        )

    @property
    def skip_as(self) -> str | None:
        """Why a child that is ready can't run."""
        if self.failed:
            return UPSTREAM_FAILED
        return UPSTREAM_SKIPPED if self.skipped else None


class Totals(NamedTuple):
    unfinished: int
    succeeded: int
    failed: int
    skipped: int


def totals_of(tasks: Iterable[TaskStand]) -> Totals:
    unfinished = succeeded = failed = skipped = 0
    for task in tasks:
        if not task.is_over:
            unfinished += 1
        elif task.state == "skipped":
            skipped += 1
        elif task.state in ("dead", "cancelled"):
            failed += 1
        else:
            succeeded += 1
    return Totals(unfinished, succeeded, failed, skipped)


def recount(tasks: Mapping[bytes, TaskStand], edges: Iterable[Edge]) -> dict[bytes, Readiness]:
    """The readiness of every task that waits for its parents, from how all of them stand."""
    found = {task.task_id: Readiness() for task in tasks.values() if task.is_pending}
    for parent_id, child_id in edges:
        if child_id not in found:
            continue
        parent, so_far = tasks[parent_id], found[child_id]
        waiting = so_far._replace(pending=so_far.pending + 1)
        over = parent.is_over and parent.state is not None
        found[child_id] = waiting.after(verdict_of(parent.state or "", parent.reason)) if over else waiting
    return found


def cascade(
    tasks: Mapping[bytes, TaskStand], edges: Collection[Edge]
) -> tuple[dict[bytes, Readiness], dict[bytes, str]]:
    """As `recount`, and then on to those that can't run, each with the reason, and what follows from that for
    whoever waits for them: however deep, without a look at a row between two levels."""
    found = recount(tasks, edges)
    children = defaultdict(list)
    for parent_id, child_id in edges:
        if child_id in found:
            children[parent_id].append(child_id)
    skipped: dict[bytes, str] = {}
    ready = [task_id for task_id, readiness in found.items() if not readiness.pending]
    while ready:
        task_id = ready.pop()
        reason = found[task_id].skip_as
        if reason is None:
            continue
        skipped[task_id] = reason
        for child_id in children[task_id]:
            found[child_id] = found[child_id].after(verdict_of("skipped", reason))
            if not found[child_id].pending:
                ready.append(child_id)
    return found, skipped


def descendants(of: Iterable[bytes], edges: Iterable[Edge]) -> set[bytes]:
    """All that can be reached from these; by level, however deep."""
    children = defaultdict(list)
    for parent_id, child_id in edges:
        children[parent_id].append(child_id)
    found: set[bytes] = set()
    level = list(of)
    while level:
        level = [child for task in level for child in children[task] if child not in found]
        found.update(level)
    return found


def outcome_of(policy: str, totals: Totals) -> str:
    """How a run ended whose tasks are all over."""
    if not totals.failed and not totals.skipped:
        return "succeeded"
    if not totals.succeeded or (totals.failed and policy == "fail_fast"):
        return "failed"
    return "partial"
