"""The demo's fault: a shard is killed with -9 while one of its jobs fires, and another one takes over.

Everything is looked for until it is there: no step of it relies on how long another one takes.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import psycopg
import trio

from shardwheel.client import Client
from shardwheel.compose.demo_finding import Finding
from shardwheel.compose.dev import RunningStack
from shardwheel.etcd import Etcd
from shardwheel.records import View, read_view

LIMIT_S = 120.0
EVERY_MS = 200
# So many runs before the kill, and so many after the takeover.
RUNS = 5
WHAT = "kill -9 of a shard"


class Victim(NamedTuple):
    shard_id: str
    pid: int
    partitions: frozenset[int]


async def takeover(stack: RunningStack) -> list[Finding]:
    """Kill the owner of a job that fires all the time; show who took what it owned, and the pause."""
    job_id = await trio.to_thread.run_sync(_create, stack.settings.postgres_dsn)
    try:
        with trio.fail_after(LIMIT_S):
            await _until_run(stack, job_id, RUNS)
            victim = await _owner_of(stack, job_id)
            os.kill(victim.pid, signal.SIGKILL)
            heirs = await _heirs(stack, victim)
            await _until_run(stack, job_id, len(await _runs(stack, job_id)) + RUNS)
    except trio.TooSlowError:
        return [Finding(WHAT, False, f"nobody took over within {LIMIT_S:g} s")]
    pause_s, whole = await _pause(stack, job_id)
    took = ", ".join(f"{shard_id} took {count}" for shard_id, count in sorted(heirs.items()))
    return [
        Finding(WHAT, True, f"{victim.shard_id} owned {len(victim.partitions)} partitions: {took}"),
        Finding("no run is lost by it", whole, f"a job of every 0.2 s paused for {pause_s:.1f} s at most"),
    ]


def _create(dsn: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as conn:
        fields: dict[str, Any] = {"every": f"{EVERY_MS}ms", "misfire": "fire_all", "misfire_grace_s": 600}
        return Client().create_job("demo.hello", conn=conn, **fields).id


async def _owner_of(stack: RunningStack, job_id: str) -> Victim:
    """The shard that fires the job now. (Its name holds its process's number.)"""
    partition = await trio.to_thread.run_sync(_partition, stack.settings.postgres_dsn, job_id)
    view = await _until_view(stack, lambda view: partition in view.owners)
    shard_id = view.owners[partition].shard_id
    return Victim(shard_id, int(shard_id.split("-")[-2]), frozenset(view.owned_by(shard_id)))


def _partition(dsn: str, job_id: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as conn:
        ((partition,),) = conn.execute("SELECT partition FROM shardwheel.jobs WHERE job_id = %s", [job_id])
        return int(partition)


async def _heirs(stack: RunningStack, victim: Victim) -> Counter[str]:
    """Who owns what the victim owned, once all of it is owned by others."""

    def taken(view: View) -> bool:
        owners = {view.owners[p].shard_id for p in victim.partitions if p in view.owners}
        return victim.partitions <= view.owners.keys() and victim.shard_id not in owners

    view = await _until_view(stack, taken)
    return Counter(view.owners[partition].shard_id for partition in victim.partitions)


async def _until_view(stack: RunningStack, done: Callable[[View], bool]) -> View:
    settings = stack.settings
    async with Etcd(settings.etcd_endpoints, cluster=settings.cluster, time_limit_s=10) as client:
        while True:
            view = read_view(await client.range(""))
            if done(view):
                return view
            await trio.sleep(0.05)


async def _until_run(stack: RunningStack, job_id: str, count: int) -> None:
    while len(await _runs(stack, job_id)) < count:
        await trio.sleep(0.1)


async def _pause(stack: RunningStack, job_id: str) -> tuple[float, bool]:
    """The longest time between two starts, and whether every time up to the last one that ran has run: one
    that ran beside others may be settled a moment after them."""
    last_ms = (await _runs(stack, job_id))[-1]["at_ms"]
    give_up_s = time.monotonic() + LIMIT_S
    while True:
        runs = [run for run in await _runs(stack, job_id) if run["at_ms"] <= last_ms]
        whole = all(after["at_ms"] - before["at_ms"] == EVERY_MS for before, after in pairwise(runs))
        if whole or time.monotonic() > give_up_s:
            starts = sorted(run["started_ms"] for run in runs)
            return max(after - before for before, after in pairwise(starts)) / 1000, whole
        await trio.sleep(0.1)


async def _runs(stack: RunningStack, job_id: str) -> list[dict[str, Any]]:
    return await trio.to_thread.run_sync(_read_runs, stack.settings.postgres_dsn, job_id)


def _read_runs(dsn: str, job_id: str) -> list[dict[str, Any]]:
    with psycopg.connect(dsn, autocommit=True, row_factory=psycopg.rows.dict_row) as conn:
        return conn.execute(
            """SELECT shardwheel.ms(scheduled_at) AS at_ms, shardwheel.ms(started_at) AS started_ms
                 FROM shardwheel.executions WHERE job_id = %s AND state = 'succeeded'
                ORDER BY execution_id""",
            [job_id],
        ).fetchall()
