"""`shardctl bench failover`: a shard is killed or stopped while its partitions fire. How long do they pause?

Three shards as processes on durable servers hold so many jobs of the mix; see pauses.py for what is measured.
Without standbys the leader plans the orphans, and whoever gets them loads first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

import trio

from shardwheel.bench.embedded import Servers, embedded_servers
from shardwheel.bench.pauses import LABELS, Report, measure_pauses
from shardwheel.bench.report import print_machine, print_table
from shardwheel.bench.shards import (
    SHARDS,
    is_settled,
    pid_of,
    prepare,
    shard_processes,
    until,
    until_mirrored,
)
from shardwheel.records import View

_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def bench_failover(
    held: int, seconds: float, standby: int, how: str, leader: bool, say: Callable[[str], None]
) -> Report:
    with embedded_servers(say) as servers:
        return trio.run(measure_failover, servers, held, seconds, standby, how, leader, say)


async def measure_failover(
    servers: Servers,
    held: int,
    seconds: float,
    standby: int,
    how: str,
    leader: bool,
    say: Callable[[str], None],
) -> Report:
    await prepare(servers, held, say)
    with shard_processes(servers, SHARDS, STANDBYS=str(standby)):
        say(f"starting {SHARDS} shards")
        view = await until(servers, lambda view: is_settled(view, SHARDS), "owning all partitions")
        await until_mirrored(servers)
        victim = choose(view, leader=leader)

        async def strike() -> Report:
            say(f"{how}: {victim}, {'the leader' if leader else 'not the leader'}")
            os.kill(pid_of(victim), _SIGNALS[how])
            return {"standby": standby, "how": how, "leader": leader, "held": held}

        return await measure_pauses(servers, sorted(view.owned_by(victim)), seconds, strike, say)


def choose(view: View, *, leader: bool) -> str:
    """Who is hit: the leader, or of the others the one that owns most."""
    assert view.leader is not None
    if leader:
        return view.leader.shard_id
    others = [shard_id for shard_id in view.members if shard_id != view.leader.shard_id]
    return max(sorted(others), key=lambda shard_id: len(view.owned_by(shard_id)))


def print_result(result: Report) -> None:
    rows = [[label, result[name]] for name, label in LABELS.items()]
    mirror = "with standbys" if result["standby"] else "without standbys"
    print_table(f"Fail-over by {result['how']}, {mirror}, {result['held']:,} held", ["", ""], rows)
    print_machine(result["machine"])
