"""What `shard`, `partition`, `rebalance` and `replay` show, and how they are used."""

from __future__ import annotations

import pytest
from trio.testing import trio_test
from typer.testing import CliRunner

from shardwheel.cli import app
from shardwheel.commands.shards import places, shard_shown
from shardwheel.coordinator import steering
from shardwheel.coordinator.steering import look
from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.ports import Delete, Identity, PartitionState, Put
from shardwheel.records import owner_key
from shardwheel.showing import partition_rows, shard_left, shard_rows
from tests.unit.coordinator.clusters import MADE_AT_MS, cluster, shard


@trio_test
async def test_the_shards_with_what_they_own_and_mirror() -> None:
    leases = await cluster(shard("a", zone="north"), shard("b", zone="south"))
    await steering.drain(leases, "b")
    view = await look(leases)
    first, second = shard_rows(view)
    assert first == {
        "id": "a",
        "state": "active",
        "zone": "north",
        "leader": True,
        "partitions": 128,
        "standbys": 128,
        "address": "a:80",
        "version": "1",
        "started_at": "2026-11-18T12:00:00.000Z",
    }
    assert (second["state"], second["leader"]) == ("draining", False)
    shown = shard_shown(shard_rows(view), places(view), "a")
    assert len(shown["partitions"]) == len(shown["standbys"]) == 128
    assert shown["to_get"] == shown["to_give"] == []
    assert shard_left(view, "b") == {"id": "b", "state": "draining", "partitions": 128, "drained": False}
    assert shard_left(view, "gone") == {"id": "gone", "state": "gone", "partitions": 0, "drained": True}
    with pytest.raises(NotFoundError):
        shard_shown(shard_rows(view), places(view), "c")


@trio_test
async def test_the_partitions_with_their_state_and_how_far_they_are_behind() -> None:
    leases = await cluster(shard("a"), shard("b"))
    planned = (await look(leases)).seats
    other = {"a": "b", "b": "a"}
    await leases.txn([], [Put(owner_key(1), other[planned[1].owner].encode()), Delete(owner_key(2))])
    await steering.pin(leases, 1, "a")
    states = [
        PartitionState(p, 4, "", MADE_AT_MS if p else 0, 9, MADE_AT_MS - 1, 9, "", Identity(1, 1))
        for p in range(3)
    ]
    rows = partition_rows(await look(leases), states, {1: 40}, MADE_AT_MS + 1500)
    assert [row["state"] for row in rows] == ["owned", "moving", "unowned"]
    assert (rows[0]["fired_through"], rows[0]["behind_s"]) == (None, None)
    assert rows[1] == {
        "partition": 1,
        "state": "moving",
        "owner": other[planned[1].owner],
        "standby": planned[1].standby,
        "planned": planned[1].owner,
        "pin": "a",
        "jobs": 40,
        "fired_through": "2026-11-18T12:00:00.000Z",
        "behind_s": 1.5,
        "claimed_through": "2026-11-18T11:59:59.999Z",
        "epoch": 4,
    }


@pytest.mark.parametrize("command", ["shard", "shard drain", "partition move", "rebalance", "replay"])
def test_help_comes_with_an_example(command: str) -> None:
    answer = CliRunner().invoke(app, [*command.split(), "--help"])
    assert answer.exit_code == 0
    assert f"shardctl {command} " in answer.output


def test_a_replay_is_refused_before_anything_is_touched() -> None:
    def error_of(*arguments: str) -> BaseException | None:
        return CliRunner().invoke(app, ["replay", *arguments]).exception

    assert isinstance(error_of("--since", "yesterday", "--yes"), UsageError)
    assert isinstance(error_of("--since", "floor", "--partition", "256", "--yes"), UsageError)
    assert isinstance(error_of("--since", "floor"), ConflictError)
