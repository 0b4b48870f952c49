"""`shardctl rebalance`: level the partitions over the shards, or say what that would move."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from shardwheel.commands.cluster import Cluster, wait_until, weighed, where_it_stands, with_cluster
from shardwheel.commands.context import DataOption
from shardwheel.commands.shards import WAIT_S, LimitOption, WaitOption
from shardwheel.coordinator import steering
from shardwheel.coordinator.progress import moves_to_balance, outstanding
from shardwheel.output import Format, FormatOption, print_rows, print_thing
from shardwheel.records import View

app = typer.Typer(invoke_without_command=True)
MOVES = ["partition", "from", "to", "jobs"]


class Switch(StrEnum):
    on = "on"
    off = "off"


@app.callback()
def rebalance(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would move; move nothing.")] = False,
    wait: WaitOption = False,
    limit_s: LimitOption = WAIT_S,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Give every shard its share of the partitions, now. What was moved by hand is free to move again.

    It happens by itself whenever a shard joins or leaves, unless `shardctl rebalance auto off` was said.

    Examples:

        shardctl rebalance --dry-run

        shardctl rebalance --wait

        shardctl rebalance status -o json
    """
    if context.invoked_subcommand is not None:
        return
    if dry_run:
        _print_moves(with_cluster(data, _planned), output)
        return

    async def work(cluster: Cluster) -> dict[str, Any]:
        asked = await _planned(cluster)
        await steering.rebalance(cluster.leases)
        if wait:
            await wait_until(cluster, _is_level, "rebalancing", limit_s)
        return asked | {"done": _is_level(await steering.look(cluster.leases))}

    print_thing({name: value for name, value in with_cluster(data, work).items() if name != "moves"}, output)


@app.command()
def status(data: DataOption = None, output: FormatOption = Format.table) -> None:
    """off, ready, in_progress or stalled; with the reason, and what to do about it.

    Example:

        shardctl rebalance status -o json
    """
    found = with_cluster(data, where_it_stands)
    if output is Format.table:
        del found["moves"]
    print_thing(found, output)


@app.command()
def auto(
    switch: Annotated[Switch, typer.Argument(help="on or off.")],
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Whether partitions are levelled whenever a shard joins or leaves.

    Off, only those move that have lost their owner, whose owner drains, or that are moved by hand.

    Example:

        shardctl rebalance auto off
    """

    async def work(cluster: Cluster) -> dict[str, Any]:
        await steering.switch(cluster.leases, automatic=switch is Switch.on)
        return {"automatic": not (await steering.look(cluster.leases)).rebalance_off}

    print_thing(with_cluster(data, work), output)


async def _planned(cluster: Cluster) -> dict[str, Any]:
    return await weighed(cluster, moves_to_balance(await steering.look(cluster.leases)))


def _is_level(view: View) -> bool:
    """Nothing is on its way, and the leader has nothing more to plan."""
    asked = view.rebalance_now_revision != 0
    return not asked and not outstanding(view) and not moves_to_balance(view)


def _print_moves(found: dict[str, Any], output: Format) -> None:
    if output is not Format.table:
        print_thing(found, output)
        return
    print_rows(found["moves"], MOVES, output)
    moved = f"{found['partitions']} partitions with {found['jobs']:,} jobs"
    typer.echo(f"{moved} would move, in about {found['expected_s']} s.")
