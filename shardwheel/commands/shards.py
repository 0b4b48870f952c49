"""`shardctl shard list | show | drain | undrain`: the shards that are alive, and what they own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shardwheel.commands.calling import Api
from shardwheel.commands.steering import WAIT_S, ShardId, WaitLimitOption, WaitOption, reached, wait_for
from shardwheel.commands.verbs import Terminal
from shardwheel.coordinator import steering
from shardwheel.errors import NotFoundError
from shardwheel.records import View
from shardwheel.showing import owner_of, shard_left, shard_rows

if TYPE_CHECKING:
    from shardwheel.commands.cluster import Cluster

COLUMNS = ["id", "state", "leader", "partitions", "standbys", "address", "zone", "version", "started_at"]


def list_shards(at: Terminal) -> None:
    """The shards that are alive, with their state and how many partitions they own and mirror.

    Example:

        shardctl shard list -o json
    """

    async def direct(cluster: Cluster) -> list[dict[str, Any]]:
        return shard_rows(await steering.look(cluster.leases))

    at.rows(reached(at, _shards, direct), COLUMNS)


def show_shard(at: Terminal, shard_id: ShardId) -> None:
    """One shard: which partitions it owns and mirrors, and which it is to get or to give.

    Example:

        shardctl shard show host-4711-9f86d081
    """

    def over_api(api: Api) -> dict[str, Any]:
        return shard_shown(_shards(api), api.get("/partitions")["items"], shard_id)

    async def direct(cluster: Cluster) -> dict[str, Any]:
        view = await steering.look(cluster.leases)
        return shard_shown(shard_rows(view), places(view), shard_id)

    at.show(reached(at, over_api, direct))


def drain_shard(
    at: Terminal, shard_id: ShardId, wait: WaitOption = False, limit_s: WaitLimitOption = WAIT_S
) -> None:
    """Let a shard hand over all it owns, and give it nothing new. One at a time.

    With --wait it returns once the shard owns nothing: then it can be stopped without a gap.

    Examples:

        shardctl shard drain host-4711-9f86d081 --wait

        shardctl shard undrain host-4711-9f86d081
    """

    def over_api(api: Api) -> dict[str, Any]:
        left: dict[str, Any] = api.post("/shards/{}:drain", shard_id)
        if not wait:
            return left
        wait_for(api, lambda: not _left(api, shard_id)["partitions"], f"draining {shard_id}", limit_s)
        return _left(api, shard_id)

    async def direct(cluster: Cluster) -> dict[str, Any]:
        await steering.drain(cluster.leases, shard_id)
        if wait:
            await cluster.wait_until(
                lambda view: not view.owned_by(shard_id), f"draining {shard_id}", limit_s
            )
        return shard_left(await steering.look(cluster.leases), shard_id)

    at.show(reached(at, over_api, direct))


def undrain_shard(at: Terminal, shard_id: ShardId) -> None:
    """Let a drained shard take its share again.

    Example:

        shardctl shard undrain host-4711-9f86d081
    """

    async def direct(cluster: Cluster) -> dict[str, Any]:
        await steering.undrain(cluster.leases, shard_id)
        return shard_left(await steering.look(cluster.leases), shard_id)

    at.show(reached(at, lambda api: api.post("/shards/{}:undrain", shard_id), direct))


def places(view: View) -> list[dict[str, Any]]:
    """Every partition: who owns it, and who is to."""
    return [
        {
            "partition": partition,
            "owner": owner_of(view, partition),
            "planned": seat.owner,
            "standby": seat.standby,
        }
        for partition, seat in enumerate(view.seats)
    ]


def shard_shown(
    shards: Sequence[Mapping[str, Any]], places: Iterable[Mapping[str, Any]], shard_id: str
) -> dict[str, Any]:
    """One shard's row, with the numbers of its partitions in place of their count."""
    row = next((row for row in shards if row["id"] == shard_id), None)
    if row is None:
        known = ", ".join(sorted(row["id"] for row in shards)) or "none"
        raise NotFoundError(f"there is no shard {shard_id!r}; alive are: {known}", field="shard_id")
    by_role: dict[str, list[int]] = {"owner": [], "planned": [], "standby": []}
    for place in places:
        for role, numbers in by_role.items():
            if place[role] == shard_id:
                numbers.append(place["partition"])
    owned, planned = set(by_role["owner"]), set(by_role["planned"])
    return {
        **row,
        "partitions": sorted(owned),
        "standbys": by_role["standby"],
        "to_get": sorted(planned - owned),
        "to_give": sorted(owned - planned),
    }


def _shards(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/shards")["items"]
    return found


def _left(api: Api, shard_id: str) -> dict[str, Any]:
    """What a drain left: a shard may end while it drains, and is then drained too."""
    row = next((row for row in _shards(api) if row["id"] == shard_id), {"state": "gone", "partitions": 0})
    is_drained = row["state"] != "active" and not row["partitions"]
    return {"id": shard_id, "state": row["state"], "partitions": row["partitions"], "drained": is_drained}
