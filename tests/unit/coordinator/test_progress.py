"""Where a rebalance stands, from one look at the keys: every state, and every reason for a stall."""

from __future__ import annotations

from collections import Counter

import pytest
from trio.testing import trio_test

from shardwheel.coordinator import steering
from shardwheel.coordinator.planning import Move
from shardwheel.coordinator.progress import (
    LOADED_PER_S,
    STALLED_AFTER_MS,
    expected_s,
    moves_to_balance,
    outstanding,
    progress,
)
from shardwheel.coordinator.steering import look
from shardwheel.memory.leases import MemoryLeases
from shardwheel.partition import PARTITIONS
from shardwheel.ports import Delete, Put
from shardwheel.records import LEADER, encode, member_key, owner_key, ready_key
from tests.unit.coordinator.clusters import MADE_AT_MS, cluster, shard

LATER_MS = MADE_AT_MS + STALLED_AFTER_MS + 1


async def misplaced(leases: MemoryLeases) -> tuple[int, str, str]:
    """Let partition 0 be owned by the other one than is planned."""
    (planned, _), *_ = (await look(leases)).seats
    owner = "b" if planned == "a" else "a"
    await leases.txn([], [Put(owner_key(0), owner.encode())])
    return 0, owner, planned


@trio_test
async def test_ready_then_in_progress_then_stalled_until_something_arrives() -> None:
    leases = await cluster(shard("a"), shard("b"))
    assert progress(await look(leases), LATER_MS, 0).state == "ready"
    move = await misplaced(leases)
    view = await look(leases)
    assert outstanding(view) == [move]
    assert progress(view, MADE_AT_MS + 1, 0).state == "in_progress"
    assert progress(view, LATER_MS, 0).state == "stalled"
    assert progress(view, LATER_MS, MADE_AT_MS + 2).state == "in_progress"


@trio_test
async def test_off_says_what_would_move() -> None:
    leases = await cluster(shard("a"), shard("b"))
    await steering.switch(leases, automatic=False)
    assert "0 partitions would move" in progress(await look(leases), LATER_MS, 0).reason
    await leases.txn([], [Put(member_key("c"), encode(shard("c")))])
    found = progress(await look(leases), LATER_MS, 0)
    assert (found.state, found.moves) == ("off", ())
    assert "85 partitions would move" in found.reason or "86 partitions would move" in found.reason
    assert "shardctl rebalance" in found.remedy
    await steering.switch(leases, automatic=True)
    assert progress(await look(leases), LATER_MS, 0).state == "in_progress"


@trio_test
async def test_a_dry_run_levels_what_was_moved_by_hand() -> None:
    leases = await cluster(shard("a"), shard("b"))
    for partition in range(PARTITIONS):
        await leases.txn([], [Put(owner_key(partition), b"a")])
    wanted = moves_to_balance(await look(leases))
    assert Counter((move.source, move.target) for move in wanted) == {("a", "b"): PARTITIONS // 2}


@trio_test
async def test_a_stall_names_the_one_who_does_not_go_on() -> None:
    leases = await cluster(shard("a"), shard("b"))
    partition, source, target = await misplaced(leases)

    async def reason() -> str:
        found = progress(await look(leases), LATER_MS, 0)
        assert (found.state, bool(found.remedy)) == ("stalled", True)
        return found.reason

    assert await reason() == f"{target} has not loaded what it is to take from {source} (1 partitions: 0)"
    await leases.txn([], [Put(ready_key(partition), target.encode())])
    assert await reason() == f"{source} does not hand over what {target} is ready for (1 partitions: 0)"
    await leases.txn([], [Delete(owner_key(partition))])
    assert await reason() == f"{target} has not taken what nobody owns (1 partitions: 0)"
    await leases.txn([], [Delete(member_key(target))])
    assert f"{target} is gone, and the leader a has not planned without it" in await reason()
    await leases.txn([], [Delete(LEADER)])
    assert await reason() == "no shard leads"
    await leases.txn([], [Delete(member_key(source))])
    assert await reason() == "no shard is alive"


def test_the_expected_time_is_that_of_the_shard_which_loads_most() -> None:
    moves = [Move(0, "a", "b"), Move(1, "a", "b"), Move(2, "a", "c")]
    jobs = {0: LOADED_PER_S, 1: LOADED_PER_S, 2: LOADED_PER_S}
    assert expected_s(moves, jobs) == pytest.approx(2, abs=0.5)
    assert expected_s([], jobs) == 0
