"""The cluster changed over HTTP: drain a shard, let it take its share again, move and level partitions.

Each writes a key in etcd and waits for nothing more: the leader and the shards do the rest. The audit's row
is written in a transaction that stays open meanwhile, so that a refused wish leaves none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardwheel.api import bodies, cluster_views, examples
from shardwheel.api.desk import ClusterFacts, Steered, Steering
from shardwheel.api.route import Ask, Reply, Route
from shardwheel.errors import NotFoundError
from shardwheel.partition import PARTITIONS
from shardwheel.showing import owner_of, shard_left
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.link import Connection
from shardwheel.store.steering import count_jobs, last_taken_ms


async def drain(ask: Ask) -> Reply:
    return await _steer_shard(ask, "shard.drain", ask.desk.steering.drain)


async def undrain(ask: Ask) -> Reply:
    return await _steer_shard(ask, "shard.undrain", ask.desk.steering.undrain)


async def rebalance(ask: Ask) -> Reply:
    bodies.read_body(ask.body, bodies.Small)
    moves = await ask.desk.pool.run(ask.tenant, _rebalanced, ask.actor, ask.desk.steering)
    return Reply({"asked": True, "partitions": moves}, 202)


async def standing(ask: Ask) -> Reply:
    return Reply(await ask.desk.pool.run(ask.tenant, _standing, ask.desk.steering))


async def switch(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.AutomaticBody)
    return Reply(await ask.desk.pool.run(ask.tenant, _switched, ask.actor, ask.desk.steering, wish.automatic))


async def move(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.MoveBody)
    number = ask.path["id"]
    if not (number.isascii() and number.isdecimal() and len(number) <= 3 and int(number) < PARTITIONS):
        raise NotFoundError(
            f"there is no partition {number!r:.40}; they are 0 to {PARTITIONS - 1}", field="id"
        )
    moved = await ask.desk.pool.run(ask.tenant, _moved, ask.actor, ask.desk.steering, int(number), wish.to)
    return Reply(moved, 202)


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


def _standing(conn: Connection, tenant_id: str, steering: Steering) -> dict[str, Any]:
    facts = ClusterFacts(read_now_ms(conn), last_taken_ms(conn), count_jobs(conn, tenant_id))
    return steering.standing(facts)


def _switched(
    conn: Connection, tenant_id: str, actor: Actor, steering: Steering, automatic: bool
) -> dict[str, Any]:
    steered = steering.switch(automatic)
    before, after = ({"automatic": not view.rebalance_off} for view in (steered.before, steered.after))
    details = {"before": before, "after": after}
    write_audit(conn, tenant_id, actor, "cluster.rebalance_automatic", "cluster", "", details)
    return after


def _moved(
    conn: Connection, tenant_id: str, actor: Actor, steering: Steering, partition: int, shard_id: str
) -> dict[str, Any]:
    steered = steering.move(partition, shard_id)
    details = {
        name: {"owner": owner_of(view, partition), "pin": view.pins.get(partition)}
        for name, view in (("before", steered.before), ("after", steered.after))
    }
    write_audit(conn, tenant_id, actor, "partition.move", "partition", str(partition), details)
    return {"id": str(partition), "partition": partition, **details["after"]}


ROUTES = (
    Route(
        "GET",
        "/rebalance",
        standing,
        "Where a rebalance stands",
        "off, ready, in_progress or stalled, with the reason and what to do; what is on its way, and in "
        "`planned` what a rebalance would move. Jobs are counted of your own.",
        cluster_views.StandingView,
        examples.STANDING,
    ),
    Route(
        "PATCH",
        "/rebalance",
        switch,
        "Whether partitions are levelled by themselves",
        "Off, only those move that have lost their owner, whose owner drains, or that are moved by hand.",
        cluster_views.AutomaticView,
        {"automatic": False},
        body=bodies.AutomaticBody,
        body_example={"automatic": False},
    ),
    Route(
        "POST",
        "/partitions/{id}:move",
        move,
        "Move a partition to a shard, and keep it there",
        "Until a rebalance or the shard's end. It is asked for then, not done: see `GET /partitions`.",
        cluster_views.MovedView,
        {"id": "17", "partition": 17, "owner": "host-4711-9f86d081", "pin": "host-4712-1a2b3c4d"},
        status=202,
        body=bodies.MoveBody,
        body_example={"to": "host-4712-1a2b3c4d"},
        id_is_uuid=False,
    ),
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
