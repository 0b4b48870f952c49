"""What people may ask of a cluster, and what is refused, on the etcd in memory."""

from __future__ import annotations

import pytest
from trio.testing import trio_test

from shardwheel.coordinator import steering
from shardwheel.coordinator.steering import look
from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.partition import PARTITIONS
from shardwheel.ports import Put
from shardwheel.records import MemberState, member_key
from tests.unit.coordinator.clusters import cluster, shard


@trio_test
async def test_one_shard_drains_at_a_time_and_never_the_last_one() -> None:
    leases = await cluster(shard("a"), shard("b"), shard("c"))
    await steering.drain(leases, "a")
    await steering.drain(leases, "a")
    assert (await look(leases)).is_draining("a")
    with pytest.raises(ConflictError, match="undrain a"):
        await steering.drain(leases, "b")
    await steering.undrain(leases, "b")
    assert (await look(leases)).is_draining("a")
    await steering.undrain(leases, "a")
    assert (await look(leases)).drain is None
    with pytest.raises(NotFoundError, match="alive are: a, b, c"):
        await steering.drain(leases, "d")
    with pytest.raises(NotFoundError):
        await steering.undrain(leases, "d")
    alone = await cluster(shard("a"), shard("b", state=MemberState.LEAVING))
    with pytest.raises(ConflictError, match="start another one"):
        await steering.drain(alone, "a")
    with pytest.raises(ConflictError, match="is leaving"):
        await steering.drain(alone, "b")


@trio_test
async def test_a_partition_is_pinned_to_an_active_shard_alone() -> None:
    leases = await cluster(shard("a"), shard("b"))
    await steering.pin(leases, 7, "b")
    assert (await look(leases)).pins == {7: "b"}
    with pytest.raises(UsageError, match="0 to 255"):
        await steering.pin(leases, PARTITIONS, "b")
    with pytest.raises(NotFoundError):
        await steering.pin(leases, 7, "c")
    await steering.drain(leases, "b")
    with pytest.raises(ConflictError, match="b is draining"):
        await steering.pin(leases, 8, "b")


@trio_test
async def test_a_rebalance_frees_every_pin_and_asks_the_leader() -> None:
    leases = await cluster(shard("a"), shard("b"))
    for partition in range(PARTITIONS):
        await steering.pin(leases, partition, "b")
    await steering.rebalance(leases)
    view = await look(leases)
    assert view.pins == {}
    assert view.rebalance_now_revision


@trio_test
async def test_a_rebalance_without_shards_is_refused() -> None:
    leases = await cluster(shard("a"))
    await leases.txn([], [Put(member_key("a"), b"unreadable")])
    with pytest.raises(ConflictError, match="no shard is alive"):
        await steering.rebalance(leases)


@trio_test
async def test_automatic_rebalancing_is_switched_off_and_on() -> None:
    leases = await cluster(shard("a"))
    await steering.switch(leases, automatic=False)
    assert (await look(leases)).rebalance_off
    await steering.switch(leases, automatic=True)
    assert not (await look(leases)).rebalance_off
