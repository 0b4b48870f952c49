"""The cluster changed over HTTP: drain a shard, let it take its share again, level the partitions.

Each writes a key in etcd and waits for nothing more: the leader and the shards do the rest. The audit's row
is written in a transaction that stays open meanwhile, so that a refused wish leaves none.
"""

from __future__ import annotations

from collections.abc import Callable

from shardwheel.api import bodies, cluster_views, examples
from shardwheel.api.desk import Steered, Steering
from shardwheel.api.route import Ask, Reply, Route
from shardwheel.showing import shard_left
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.link import Connection


async def drain(ask: Ask) -> Reply:
    return await _steer_shard(ask, "shard.drain", ask.desk.steering.drain)


async def undrain(ask: Ask) -> Reply:
    return await _steer_shard(ask, "shard.undrain", ask.desk.steering.undrain)


async def rebalance(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    moves = await ask.desk.pool.run(ask.tenant, _rebalanced, ask.actor, ask.desk.steering)
    return Reply({"asked": True, "partitions": moves}, 202)


async def _steer_shard(ask: Ask, action: str, steer: Callable[[str], Steered]) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    shard_id = ask.path["id"]
    steered = await ask.desk.pool.run(ask.tenant, _shard_steered, shard_id, ask.actor, action, steer)
    return Reply(shard_left(steered.after, shard_id), 202)


def _shard_steered(
    conn: Connection,
    tenant_id: str,
    shard_id: str,
    actor: Actor,
    action: str,
    steer: Callable[[str], Steered],
) -> Steered:
    steered = steer(shard_id)
    details = {
        name: {"state": shard_left(view, shard_id)["state"]}
        for name, view in (("before", steered.before), ("after", steered.after))
    }
    write_audit(conn, tenant_id, actor, action, "shard", shard_id, details)
    return steered


def _rebalanced(conn: Connection, tenant_id: str, actor: Actor, steering: Steering) -> int:
    steered = steering.rebalance()
    details = {"before": {"pins": len(steered.before.pins)}, "after": {"pins": len(steered.after.pins)}}
    write_audit(conn, tenant_id, actor, "cluster.rebalance", "cluster", "", details)
    return steered.moves


ROUTES = (
    Route(
        "POST",
        "/rebalance",
        rebalance,
        "Give every shard its share of the partitions",
        "Now, though it be switched off; what was moved by hand is free to move again. `partitions` says how "
        "many will move, as it stands. It is asked for then, not done: see `GET /partitions`.",
        cluster_views.RebalanceView,
        {"asked": True, "partitions": 85},
        status=202,
        body=bodies.Small,
        body_example={},
    ),
    Route(
        "POST",
        "/shards/{id}:drain",
        drain,
        "Let a shard hand over all it owns",
        "It gets nothing new. One at a time, and never the last one. It is done when the shard owns no "
        "partition any more: see `GET /shards`. Said twice, the same.",
        cluster_views.ShardLeftView,
        examples.SHARD_LEFT,
        status=202,
        body=bodies.Small,
        body_example={},
        id_is_uuid=False,
    ),
    Route(
        "POST",
        "/shards/{id}:undrain",
        undrain,
        "Let a drained shard take its share again",
        "Nothing, if it does not drain.",
        cluster_views.ShardLeftView,
        examples.SHARD_LEFT | {"state": "active"},
        status=202,
        body=bodies.Small,
        body_example={},
        id_is_uuid=False,
    ),
)
