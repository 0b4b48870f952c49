"""`shardctl partition list | move`: who owns what, how far it was fired; moving one by hand."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shardwheel.commands.cluster import Cluster, wait_until, with_cluster
from shardwheel.commands.context import DataOption
from shardwheel.commands.shards import WAIT_S, LimitOption, WaitOption
from shardwheel.coordinator import steering
from shardwheel.output import Format, FormatOption, print_rows, print_thing
from shardwheel.partition import PARTITIONS
from shardwheel.showing import partition_rows
from shardwheel.store.steering import count_jobs

app = typer.Typer(help="Look at partitions, and move them by hand.", no_args_is_help=True)
COLUMNS = ["partition", "state", "owner", "standby", "planned", "pin", "jobs", "behind_s", "epoch"]


@app.command("list")
def list_partitions(data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Every partition: its owner and standby, where it is planned to be, its jobs, how far it was fired.

    Example:

        shardctl partition list -o json
    """

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        view = await steering.look(cluster.leases)
        states = await cluster.store.partitions(range(PARTITIONS))
        jobs = await cluster.pool.run(count_jobs)
        return partition_rows(view, states, jobs, int(await cluster.store.now_ms()))

    print_rows(with_cluster(data, work), COLUMNS, output)


@app.command("move")
def move_partition(
    partition: Annotated[int, typer.Argument(help="Its number.")],
    to: Annotated[str, typer.Option("--to", help="The shard that is to own it.")],
    wait: WaitOption = False,
    limit_s: LimitOption = WAIT_S,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Move a partition to a shard and keep it there, until `shardctl rebalance` or the shard's end.

    While automatic rebalancing is on another one may move the other way, so that all own as many as before.

    Example:

        shardctl partition move 17 --to host-4711-9f86d081 --wait
    """

    async def work(cluster: Cluster) -> dict[str, Any]:
        await steering.pin(cluster.leases, partition, to)
        if wait:
            await wait_until(
                cluster, lambda view: partition in view.owned_by(to), f"moving {partition} to {to}", limit_s
            )
        view = await steering.look(cluster.leases)
        owner = view.owners.get(partition)
        return {"partition": partition, "owner": None if owner is None else owner.shard_id, "pin": to}

    print_thing(with_cluster(data, work), output)
