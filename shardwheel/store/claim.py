"""The claim: the one gate between a message and a run. One statement a batch, on the caller's transaction.

A message may come twice, late, or from a shard that was replaced: whatever it says, the rows decide. So
the shards may publish too much, never too little. Ranges (rare) have a statement of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from shardwheel.execution import Claimant, Claimed, ClaimReply, ExecutionState
from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuid, Uuids
from shardwheel.store.dag_start import start_runs
from shardwheel.store.planning import plan_by_key
from shardwheel.store.sql import is_few, sql
from shardwheel.wire import Fire, FireKind

# How long a worker is believed alive without a heartbeat, by pool. A stuck long job is found within 60 s, the
# sweep's own two seconds included.
LEASES = {"short": timedelta(seconds=30), "medium": timedelta(seconds=300), "long": timedelta(seconds=55)}


def claim(conn: Connection[Any], fires: Sequence[tuple[Fire, int]], claimant: Claimant) -> ClaimReply:
    """Claim a batch of (message, priority of its topic). Safe to repeat with the same token."""
    recorded: Counter[tuple[str, str]] = Counter()
    single = [(fire, priority) for fire, priority in fires if fire.kind in (FireKind.FIRE, FireKind.SKIP)]
    ranges = [fire for fire, _ in fires if fire.kind in (FireKind.SKIP_RANGE, FireKind.CATCH_UP_RANGE)]
    claimed: list[Claimed] = []
    begun: list[bytes] = []
    seen = 0
    if single:
        for row in _claim_single(conn, single, claimant):
            seen += 1
            is_dag, begins_run = row[-2:]
            if row[0] != ExecutionState.RUNNING:
                recorded[row[0], row[1] or ""] += 1
                continue
            if begins_run:
                begun.append(row[2])
            if not is_dag:
                claimed.append(_claimed(row, claimant.token))
    queued = start_runs(conn, begun).queued if begun else frozenset()
    for reason, count in _claim_ranges(conn, ranges) if ranges else ():
        if reason:
            recorded[ExecutionState.SKIPPED, reason] += count
    return ClaimReply(claimed, dict(recorded), len(single) - seen, queued)


def claimed_by(conn: Connection[Any], fires: Iterable[Fire], token: bytes) -> list[Claimed]:
    """After a lost reply: what the claim with this token got."""
    ids = Uuids([fire.execution_id for fire in fires])
    rows = conn.execute(sql("claimed_by"), {"execution_ids": ids, "token": Uuid(token)}, binary=True)
    return [_claimed(row, token) for row in rows]


def _claim_single(
    conn: Connection[Any], fires: Sequence[tuple[Fire, int]], claimant: Claimant
) -> Iterable[tuple[Any, ...]]:
    messages = [fire for fire, _ in fires]
    ids = [fire.execution_id for fire in messages]
    parameters = {
        "execution_ids": Uuids(ids),
        "job_ids": Uuids([fire.job_id for fire in messages]),
        "schedule_nos": Bigints([fire.schedule_no for fire in messages]),
        "scheduled": Bigints([fire.scheduled_ms for fire in messages]),
        "due": Bigints([fire.due_ms for fire in messages]),
        "attempts": Bigints([fire.attempt for fire in messages]),
        "skips": Booleans(fire.kind == FireKind.SKIP for fire in messages),
        "reasons": Texts([fire.reason for fire in messages]),
        "priorities": Bigints([priority for _, priority in fires]),
        "tasks": sorted(claimant.tasks),
        "pool": claimant.pool,
        "worker": claimant.worker,
        "token": Uuid(claimant.token),
        "lease": LEASES[claimant.pool],
    }
    if few := is_few(len(fires)):
        plan_by_key(conn)
    return conn.execute(sql("claim"), parameters, binary=True, prepare=few)


def _claim_ranges(conn: Connection[Any], ranges: Sequence[Fire]) -> Iterable[tuple[str, int]]:
    parameters = {
        "job_ids": Uuids([fire.job_id for fire in ranges]),
        "schedule_nos": Bigints([fire.schedule_no for fire in ranges]),
        "first": Bigints([fire.scheduled_ms for fire in ranges]),
        "last": Bigints([fire.until_ms for fire in ranges]),
        "counts": Bigints([fire.count for fire in ranges]),
        "skips": Booleans(fire.kind == FireKind.SKIP_RANGE for fire in ranges),
        "reasons": Texts([fire.reason for fire in ranges]),
    }
    return conn.execute(sql("claim_ranges"), parameters, binary=True, prepare=False)


def _claimed(row: tuple[Any, ...], token: bytes) -> Claimed:
    (
        _,
        _,
        execution_id,
        job_id,
        partition,
        tenant_id,
        task,
        params,
        scheduled_ms,
        attempt,
        failures,
        timeout_ms,
        due_ms,
        trace,
        dag_run_id,
        *_,
    ) = row
    return Claimed(
        execution_id,
        job_id,
        partition,
        tenant_id,
        task,
        params,
        scheduled_ms,
        due_ms,
        attempt,
        failures,
        timeout_ms,
        token,
        trace,
        dag_run_id,
    )
