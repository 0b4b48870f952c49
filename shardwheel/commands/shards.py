"""`shardctl shard list | show | drain | undrain`: the shards that are alive, and what they own."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shardwheel.commands.cluster import Cluster, wait_until, with_cluster
from shardwheel.commands.context import DataOption
from shardwheel.coordinator import steering
from shardwheel.output import Format, FormatOption, print_rows, print_thing
from shardwheel.records import View
from shardwheel.showing import shard_left, shard_rows

COLUMNS = ["id", "state", "zone", "leader", "partitions", "standbys", "address", "version", "started_at"]
ShardId = Annotated[str, typer.Argument(help="The shard's id, as `shardctl shard list` shows it.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Return when it is done.")]
LimitOption = Annotated[float, typer.Option("--limit-s", min=0.1, help="With --wait: for how long at most.")]
WAIT_S = 300.0


def list_shards(data: DataOption = None, output: FormatOption = Format.table) -> None:
    """The shards that are alive, with their state and how many partitions they own and mirror.

    Example:

        shardctl shard list -o json
    """

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        return shard_rows(await steering.look(cluster.leases))

    print_rows(with_cluster(data, work), COLUMNS, output)


def show_shard(shard_id: ShardId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """One shard: which partitions it owns and mirrors, and which it is to get or to give.

    Example:

        shardctl shard show host-4711-9f86d081
    """

    async def work(cluster: Cluster) -> dict[str, Any]:
        return shard_shown(await steering.look(cluster.leases), shard_id)

    print_thing(with_cluster(data, work), output)


def drain_shard(
    shard_id: ShardId,
    wait: WaitOption = False,
    limit_s: LimitOption = WAIT_S,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Let a shard hand over all it owns, and give it nothing new. One at a time.

    With --wait it returns once the shard owns nothing: then it can be stopped without a gap.

    Examples:

        shardctl shard drain host-4711-9f86d081 --wait

        shardctl shard undrain host-4711-9f86d081
    """

    async def work(cluster: Cluster) -> dict[str, Any]:
        await steering.drain(cluster.leases, shard_id)
        if wait:
            await wait_until(
                cluster, lambda view: not view.owned_by(shard_id), f"draining {shard_id}", limit_s
            )
        return shard_left(await steering.look(cluster.leases), shard_id)

    print_thing(with_cluster(data, work), output)


def undrain_shard(shard_id: ShardId, data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Let a drained shard take its share again.

    Example:

        shardctl shard undrain host-4711-9f86d081
    """

    async def work(cluster: Cluster) -> dict[str, Any]:
        await steering.undrain(cluster.leases, shard_id)
        return shard_left(await steering.look(cluster.leases), shard_id)

    print_thing(with_cluster(data, work), output)


def shard_shown(view: View, shard_id: str) -> dict[str, Any]:
    """One shard's row, with the numbers of its partitions in place of their count."""
    steering.member_of(view, shard_id)
    (row,) = (row for row in shard_rows(view) if row["id"] == shard_id)
    owned = sorted(view.owned_by(shard_id))
    planned = [partition for partition, seat in enumerate(view.seats) if seat.owner == shard_id]
    return row | {
        "partitions": owned,
        "standbys": [partition for partition, seat in enumerate(view.seats) if seat.standby == shard_id],
        "to_get": sorted(set(planned) - set(owned)),
        "to_give": sorted(set(owned) - set(planned)),
    }
