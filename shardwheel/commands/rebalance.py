"""`shardctl rebalance`: level the partitions over the shards, or say what that would move."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardwheel.commands import said
from shardwheel.commands.calling import Api
from shardwheel.commands.steering import WAIT_S, WaitLimitOption, WaitOption, reached, wait_for
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.coordinator import steering
from shardwheel.records import View

if TYPE_CHECKING:
    from shardwheel.commands.cluster import Cluster

app = typer.Typer(add_completion=False, invoke_without_command=True)
MOVES = ["partition", "from", "to", "jobs"]


class Switch(StrEnum):
    on = "on"
    off = "off"


@app.callback()
def rebalance(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would move; move nothing.")] = False,
    wait: WaitOption = False,
    limit_s: WaitLimitOption = WAIT_S,
    api: said.ApiOption = None,
    token: said.TokenOption = None,
    data: said.DataOption = None,
    profile: said.ProfileOption = None,
    output: said.OutputOption = None,
) -> None:
    """Give every shard its share of the partitions, now. What was moved by hand is free to move again.

    It happens by itself whenever a shard joins or leaves, unless `shardctl rebalance auto off` was said.

    Examples:

        shardctl rebalance --dry-run

        shardctl rebalance --wait

        shardctl rebalance status -o json
    """
    at = Terminal(said.hear(api=api, token=token, data=data, profile=profile, output=output))
    if context.invoked_subcommand is not None:
        return
    if dry_run:
        _print_moves(at, reached(at, _standing, _standing_on_etcd)["planned"])
        return
    found = _rebalanced(at, wait, limit_s)
    at.show({name: value for name, value in found.items() if name != "moves"})


@verb(app)
def status(at: Terminal) -> None:
    """off, ready, in_progress or stalled; with the reason, and what to do about it.

    Example:

        shardctl rebalance status -o json
    """
    found = reached(at, _standing, _standing_on_etcd)
    del found["planned"]
    if at.is_for_people:
        del found["moves"]
    at.show(found)


@verb(app)
def auto(at: Terminal, switch: Annotated[Switch, typer.Argument(help="on or off.")]) -> None:
    """Whether partitions are levelled whenever a shard joins or leaves.

    Off, only those move that have lost their owner, whose owner drains, or that are moved by hand.

    Example:

        shardctl rebalance auto off
    """
    is_on = switch is Switch.on

    async def direct(cluster: Cluster) -> dict[str, Any]:
        await steering.switch(cluster.leases, automatic=is_on)
        return {"automatic": not (await steering.look(cluster.leases)).rebalance_off}

    at.show(reached(at, lambda api: api.patch("/rebalance", body={"automatic": is_on}), direct))


def _rebalanced(at: Terminal, wait: bool, limit_s: float) -> dict[str, Any]:
    def over_api(api: Api) -> dict[str, Any]:
        planned: dict[str, Any] = _standing(api)["planned"]
        api.post("/rebalance")
        if wait:
            wait_for(api, lambda: _stands_level(api), "rebalancing", limit_s)
        return planned | {"done": _stands_level(api)}

    async def direct(cluster: Cluster) -> dict[str, Any]:
        planned: dict[str, Any] = (await cluster.standing())["planned"]
        await steering.rebalance(cluster.leases)
        if wait:
            await cluster.wait_until(_is_level, "rebalancing", limit_s)
        return planned | {"done": _is_level(await steering.look(cluster.leases))}

    return reached(at, over_api, direct)


def _standing(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.get("/rebalance")
    return found


async def _standing_on_etcd(cluster: Cluster) -> dict[str, Any]:
    return await cluster.standing()


def _stands_level(api: Api) -> bool:
    found = _standing(api)
    return not found["partitions"] and not found["planned"]["partitions"]


def _is_level(view: View) -> bool:
    """Nothing is on its way, and the leader has nothing more to plan."""
    # What plans takes longer to load than the API to answer.
    from shardwheel.coordinator.progress import moves_to_balance, outstanding

    asked = view.rebalance_now_revision != 0
    return not asked and not outstanding(view) and not moves_to_balance(view)


def _print_moves(at: Terminal, found: dict[str, Any]) -> None:
    if not at.is_for_people:
        at.show(found)
        return
    at.rows(found["moves"], MOVES)
    moved = f"{found['partitions']} partitions with {found['jobs']:,} jobs"
    typer.echo(f"{moved} would move, in about {found['expected_s']} s.")
