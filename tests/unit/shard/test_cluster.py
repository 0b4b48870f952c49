"""Shards in plural: own by plan, move, take over, drain, leave. Each story runs on servers in memory."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import trio

from shardwheel.errors import UsageError
from shardwheel.memory.leases import Faults
from shardwheel.memory.rows import EXECUTIONS, Execution
from shardwheel.partition import partition_of
from shardwheel.ports import Delete, PartitionState, Put
from shardwheel.records import DRAIN, pin_key
from shardwheel.topics import JOB_TOPICS
from tests.unit.shard.cluster import PARTITIONS, Cluster, play


def check_whole(cluster: Cluster, job_id: bytes, interval_ms: int) -> None:
    """Every time from the first to the last was published."""
    times = sorted(set(cluster.published(job_id)))
    assert len(times) > 3
    assert all(after - before == interval_ms for before, after in pairwise(times))


def test_a_shard_alone_owns_everything_soon() -> None:
    async def story(cluster: Cluster) -> None:
        began = trio.current_time()
        (alone,) = await cluster.start("a")
        assert trio.current_time() - began < 2
        await cluster.until(lambda: len(alone.owned) == PARTITIONS)

    play(story)


def test_who_joins_gets_its_share_by_hand_over_and_nothing_is_missed() -> None:
    async def story(cluster: Cluster) -> None:
        (first,) = await cluster.start("a")
        jobs = await cluster.create_every("100ms")
        await trio.sleep(3)
        (second,) = await cluster.start("b")
        await cluster.until(lambda: len(first.owned) == len(second.owned) == PARTITIONS // 2)
        await trio.sleep(3)
        states = {state.partition: state for state in await cluster.store.partitions(range(PARTITIONS))}
        for partition, job_id in jobs.items():
            check_whole(cluster, job_id, 100)
            # Handed over at a tick, with T stored: nothing was fired twice, and one bump did.
            assert len(cluster.published(job_id)) == len(set(cluster.published(job_id)))
            assert states[partition].epoch == (2 if partition in second.owned else 1)
        assert not cluster.view().ready

    play(story)


def test_the_standby_takes_over_when_the_lease_ends() -> None:
    async def story(cluster: Cluster) -> None:
        processes = await cluster.start("a", "b", "c")
        jobs = await cluster.create_every("100ms")
        await trio.sleep(5)
        victim = next(p for p in processes if p.lead.leads)
        mine = victim.owned
        seats = cluster.view().seats
        victim.crash()
        await cluster.until(lambda: victim.shard_id not in cluster.view().members)
        crashed_at = trio.current_time()
        others = [p for p in processes if p is not victim]
        await cluster.until(lambda: mine <= others[0].owned | others[1].owned)
        assert trio.current_time() - crashed_at < 1
        for partition in mine:
            assert partition in next(p for p in others if p.shard_id == seats[partition].standby).owned
        await cluster.until(cluster.is_settled)
        await trio.sleep(3)
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)

    play(story)


def test_on_suspicion_the_standby_does_not_wait_for_the_lease_and_does_it_once() -> None:
    async def story(cluster: Cluster) -> None:
        first, second = await cluster.start("a", "b")
        jobs = await cluster.create_every("100ms")
        await trio.sleep(5)
        mine = first.owned
        # Both are well, and can't reach each other: the worst case.
        cluster.doors.shut.setdefault("a", trio.Event()).set()
        await cluster.until(lambda: bool(mine & second.owned))
        assert "a" in cluster.view().members
        cluster.doors.shut.setdefault("b", trio.Event()).set()
        await trio.sleep(30)
        settled = await cluster.store.partitions(range(PARTITIONS))
        await trio.sleep(30)
        after = await cluster.store.partitions(range(PARTITIONS))
        assert [s.epoch for s in after] == [s.epoch for s in settled], "they replace each other for ever"
        assert first.owned | second.owned == set(range(PARTITIONS))
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)

    play(story)


def test_a_shard_drains_and_comes_back() -> None:
    async def story(cluster: Cluster) -> None:
        first, second = await cluster.start("a", "b")
        await first.leases.txn([], [Put(DRAIN, b"a")])
        await cluster.until(lambda: not first.owned and len(second.owned) == PARTITIONS)
        assert cluster.view().members["a"].state == "draining"
        await first.leases.txn([], [Delete(DRAIN)])
        await cluster.until(lambda: len(first.owned) == PARTITIONS // 2)
        assert cluster.view().members["a"].state == "active"

    play(story)


def test_a_drain_goes_by_groups_and_publishes_nothing_twice() -> None:
    async def story(cluster: Cluster) -> None:
        first, second = await cluster.start("a", "b")
        jobs = await cluster.create_every("100ms")
        await trio.sleep(5)
        await first.leases.txn([], [Put(DRAIN, b"a")])
        await cluster.until(lambda: not first.owned and len(second.owned) == PARTITIONS)
        await first.leases.txn([], [Delete(DRAIN)])
        await cluster.until(lambda: len(first.owned) == PARTITIONS // 2)
        await trio.sleep(3)
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)
            assert len(cluster.published(job_id)) == len(set(cluster.published(job_id)))
        assert not cluster.view().ready

    with patch("shardwheel.shard.mirror.PARTITIONS_AT_ONCE", 2):
        play(story)


def test_what_was_taken_on_a_ground_that_changed_meanwhile_is_taken_again_on_the_new_one() -> None:
    async def story(cluster: Cluster) -> None:
        (first,) = await cluster.start("a")
        jobs = await cluster.create_every("100ms")
        await trio.sleep(3)
        take = cluster.store.take_partitions

        async def take_and_lose_kafka(seen: dict[int, int], owner: str) -> list[PartitionState]:
            taken = await take(seen, owner)
            if owner == "b" and not lost:
                lost.append(True)
                cluster.kafka.wipe()
                await trio.sleep(3)  # Long enough for a look at the ground.
            return taken

        lost: list[bool] = []
        with patch.object(cluster.store, "take_partitions", take_and_lose_kafka):
            (second,) = await cluster.start("b")
            await cluster.until(lambda: len(first.owned) == len(second.owned) == PARTITIONS // 2)
        assert lost
        await trio.sleep(3)
        generation = await first.bus.generation(JOB_TOPICS)
        states = await cluster.store.partitions(range(PARTITIONS))
        assert {state.kafka_generation for state in states} == {generation}
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)

    play(story)


def test_a_pin_moves_a_partition() -> None:
    async def story(cluster: Cluster) -> None:
        first, second = await cluster.start("a", "b")
        partition = min(first.owned)
        await first.leases.txn([], [Put(pin_key(partition), b"b")])
        await cluster.until(lambda: partition in second.owned and partition not in first.owned)

    play(story)


def test_who_leaves_hands_everything_over_first() -> None:
    async def story(cluster: Cluster) -> None:
        first, second = await cluster.start("a", "b")
        jobs = await cluster.create_every("100ms")
        await trio.sleep(5)
        leaving = first if first.lead.leads else second
        stays = second if leaving is first else first
        began = trio.current_time()
        leaving.service.stop()
        await cluster.until(leaving.ended.is_set)
        assert not leaving.errors and trio.current_time() - began < 15
        assert leaving.shard_id not in cluster.view().members
        assert len(stays.owned) == PARTITIONS
        await trio.sleep(3)
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)
            assert len(cluster.published(job_id)) == len(set(cluster.published(job_id)))
        began = trio.current_time()
        stays.service.stop()
        await cluster.until(stays.ended.is_set)
        assert trio.current_time() - began < 2, "alone there is nobody to wait for"

    play(story)


def test_a_refused_owner_whose_key_is_still_its_own_bumps_again() -> None:
    async def story(cluster: Cluster) -> None:
        (alone,) = await cluster.start("a")
        await trio.sleep(2)
        (state,) = await cluster.store.partitions([3])
        await cluster.store.take_partitions({3: state.epoch}, "somebody who vanished")

        async def epoch_and_owner() -> tuple[int, str]:
            (now,) = await cluster.store.partitions([3])
            return now.epoch, now.owner

        with trio.fail_after(60):
            while await epoch_and_owner() != (state.epoch + 2, "a") or 3 not in alone.owned:
                await trio.sleep(0.1)

    play(story)


def test_without_etcd_it_fires_on_and_takes_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        first, second = await cluster.start("a", "b")
        jobs = await cluster.create_every("100ms")
        await trio.sleep(2)
        owned = first.owned
        cluster.etcd.stop()
        await trio.sleep(20)
        assert first.owned == owned and second.owned.isdisjoint(owned)
        cluster.etcd.start()
        await trio.sleep(3)
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)

    play(story)


def test_a_lost_answer_to_a_claim_is_read_again() -> None:
    async def story(cluster: Cluster) -> None:
        (first,) = await cluster.start("a")
        first.leases.faults = Faults(lose_answers=True)
        await trio.sleep(1.5)
        first.leases.faults = Faults()
        (second,) = await cluster.start("b")
        await cluster.until(lambda: len(first.owned) == len(second.owned) == PARTITIONS // 2)

    play(story)


def test_when_etcd_has_lost_its_data_the_process_starts_over() -> None:
    async def story(cluster: Cluster) -> None:
        (alone,) = await cluster.start("a")
        cluster.etcd.wipe()
        await cluster.until(alone.ended.is_set)
        assert any("start over" in str(error) for error in alone.errors)
        (new,) = await cluster.start("a2")
        await cluster.until(lambda: len(new.owned) == PARTITIONS)

    play(story)


def test_what_cannot_be_read_is_left_out_and_named_and_nothing_of_it_is_lost() -> None:
    async def story(cluster: Cluster) -> None:
        created_ms = await cluster.store.now_ms()
        jobs = await cluster.create_every("100ms")
        with patch("shardwheel.shard.terms.schedule_of", side_effect=UsageError("no zone Mars/Base")):
            (first,) = await cluster.start("a")
            before = await cluster.store.partitions(range(PARTITIONS))
            await trio.sleep(5)
        assert "Mars/Base" in str(first.service.health.parts["schedules"])
        after = await cluster.store.partitions(range(PARTITIONS))
        assert [state.fired_through_ms for state in after] == [state.fired_through_ms for state in before]
        first.crash()
        (second,) = await cluster.start("b")
        await trio.sleep(3)
        assert second.service.health.parts["schedules"] is None
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)
            assert min(cluster.published(job_id)) - created_ms < 1_000

    play(story)


def test_what_cannot_be_read_keeps_its_t_through_a_hand_over_too() -> None:
    async def story(cluster: Cluster) -> None:
        created_ms = await cluster.store.now_ms()
        jobs = await cluster.create_every("100ms")
        with patch("shardwheel.shard.terms.schedule_of", side_effect=UsageError("no zone Mars/Base")):
            (first,) = await cluster.start("a")
            await trio.sleep(3)
        # The second one has the zone, and gets its share by hand-over.
        (second,) = await cluster.start("b")
        await cluster.until(lambda: len(first.owned) == len(second.owned) == PARTITIONS // 2)
        await trio.sleep(3)
        for partition in second.owned:
            check_whole(cluster, jobs[partition], 100)
            assert min(cluster.published(jobs[partition])) - created_ms < 1_000

    play(story)


def test_a_waiting_row_with_an_impossible_due_time_ends_no_shard_and_is_named() -> None:
    async def story(cluster: Cluster) -> None:
        jobs = await cluster.create_every("100ms")
        _plant_impossible(cluster, jobs[0])
        (alone,) = await cluster.start("a")
        _plant_impossible(cluster, jobs[1])
        await trio.sleep(3)
        assert alone.errors == []
        for job_id in jobs.values():
            check_whole(cluster, job_id, 100)
        answer = await alone.service.health.route(b"")
        assert answer.status == 200
        assert b"due at 10000000000000 ms" in answer.body

    play(story)


def _plant_impossible(cluster: Cluster, job_id: bytes) -> None:
    """A row that nothing of ours writes."""
    execution_id = b"e" * 15 + job_id[-1:]
    row = Execution(
        execution_id, "acme", partition_of(job_id), job_id, 0, "schedule", "retry_wait", 0, 10**13
    )
    transaction = cluster.postgres.begin()
    transaction.put(EXECUTIONS, row.execution_id, row._replace(changed_xid=transaction.xid))
    transaction.commit()
