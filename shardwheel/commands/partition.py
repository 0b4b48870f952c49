"""`shardctl partition list | move`: who owns what, how far it was fired; moving one by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardwheel.commands.calling import Api
from shardwheel.commands.said import noun
from shardwheel.commands.steering import WAIT_S, WaitLimitOption, WaitOption, reached, wait_for
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.coordinator import steering
from shardwheel.partition import PARTITIONS
from shardwheel.showing import owner_of, partition_rows

if TYPE_CHECKING:
    from shardwheel.commands.cluster import Cluster

app = noun("Look at partitions, and move them by hand.")
COLUMNS = ["partition", "state", "owner", "standby", "planned", "pin", "jobs", "behind_s", "epoch"]


@verb(app, "list")
def list_partitions(at: Terminal) -> None:
    """Every partition: its owner and standby, where it is planned to be, its jobs, how far it was fired.

    Example:

        shardctl partition list -o json
    """

    async def direct(cluster: Cluster) -> list[dict[str, Any]]:
        view = await steering.look(cluster.leases)
        states = await cluster.store.partitions(range(PARTITIONS))
        jobs = await cluster.count_jobs()
        return partition_rows(view, states, jobs, int(await cluster.store.now_ms()))

    at.rows(reached(at, _partitions, direct), COLUMNS)


@verb(app, "move")
def move_partition(
    at: Terminal,
    partition: Annotated[int, typer.Argument(help="Its number.", min=0, max=PARTITIONS - 1)],
    to: Annotated[str, typer.Option("--to", help="The shard that is to own it.")],
    wait: WaitOption = False,
    limit_s: WaitLimitOption = WAIT_S,
) -> None:
    """Move a partition to a shard and keep it there, until `shardctl rebalance` or the shard's end.

    While automatic rebalancing is on another one may move the other way, so that all own as many as before.

    Example:

        shardctl partition move 17 --to host-4711-9f86d081 --wait
    """

    def over_api(api: Api) -> dict[str, Any]:
        moved: dict[str, Any] = api.post("/partitions/{}:move", str(partition), body={"to": to})
        if wait:
            wait_for(api, lambda: _owner(api, partition) == to, f"moving {partition} to {to}", limit_s)
            moved["owner"] = to
        return {name: moved[name] for name in ("partition", "owner", "pin")}

    async def direct(cluster: Cluster) -> dict[str, Any]:
        await steering.pin(cluster.leases, partition, to)
        if wait:
            await cluster.wait_until(
                lambda view: partition in view.owned_by(to), f"moving {partition} to {to}", limit_s
            )
        view = await steering.look(cluster.leases)
        return {"partition": partition, "owner": owner_of(view, partition), "pin": to}

    at.show(reached(at, over_api, direct))


def _partitions(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/partitions")["items"]
    return found


def _owner(api: Api, partition: int) -> str | None:
    return next((row["owner"] for row in _partitions(api) if row["partition"] == partition), None)
