"""`shardctl bench move`: a shard is drained and taken back while its partitions fire. How long do they pause?

By the hand-over that a deploy uses: first all that one shard owns moves to the others, most of it to its
standbys; then the shard gets its share back, which it has to load. See pauses.py for what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from shardwheel.bench.embedded import Servers, embedded_servers
from shardwheel.bench.failover import choose
from shardwheel.bench.pauses import LABELS, Report, measure_pauses
from shardwheel.bench.report import print_machine, print_table
from shardwheel.bench.shards import (
    CLUSTER,
    SHARDS,
    is_settled,
    prepare,
    shard_processes,
    until,
    until_mirrored,
)
from shardwheel.coordinator import steering
from shardwheel.etcd import Etcd


def bench_move(held: int, seconds: float, say: Callable[[str], None]) -> Report:
    with embedded_servers(say) as servers:
        return trio.run(measure_move, servers, held, seconds, say)


async def measure_move(servers: Servers, held: int, seconds: float, say: Callable[[str], None]) -> Report:
    await prepare(servers, held, say)
    with shard_processes(servers, SHARDS):
        say(f"starting {SHARDS} shards")
        view = await until(servers, lambda view: is_settled(view, SHARDS), "owning all partitions")
        await until_mirrored(servers)
        moved = choose(view, leader=False)

        async def strike() -> Report:
            return await _drain_and_undrain(servers, moved, say) | {"standby": 1, "held": held}

        return await measure_pauses(servers, sorted(view.owned_by(moved)), seconds, strike, say)


async def _drain_and_undrain(servers: Servers, moved: str, say: Callable[[str], None]) -> Report:
    """How long it took until the shard owned nothing, and then until it had its share again."""
    async with Etcd((servers.etcd,), cluster=CLUSTER) as leases:
        say(f"draining {moved}")
        began_s = time.monotonic()
        await steering.drain(leases, moved)
        await until(servers, lambda view: not view.owned_by(moved), "draining")
        drained_s = time.monotonic()
        say("taking it back")
        await steering.undrain(leases, moved)
        await until(servers, lambda view: is_settled(view, SHARDS), "taking it back")
    return {"drain_s": round(drained_s - began_s, 2), "undrain_s": round(time.monotonic() - drained_s, 2)}


def print_result(result: Report) -> None:
    labels = LABELS | {"drain_s": "until it was drained, s", "undrain_s": "until it had its share again, s"}
    rows = [[label, result[name]] for name, label in labels.items()]
    print_table(f"Drained and taken back, {result['held']:,} held", ["", ""], rows)
    print_machine(result["machine"])
