"""A move that is cut off at each of its steps: the old owner, or the new one, is killed or stands still."""

from __future__ import annotations

import signal

import pytest

from tests.integration.cluster.rig import Cluster
from tests.integration.cluster.stepping import HANDING_OVER, TAKING

pytestmark = pytest.mark.servers


def test_the_old_owner_at_each_step(cluster: Cluster) -> None:
    for step in HANDING_OVER:
        for fault in (signal.SIGKILL, signal.SIGSTOP):
            cut_off(cluster, step, fault, of_the_old_owner=True)
        cluster.wait_whole()
    assert cluster.check() > 1000


def test_the_new_owner_at_each_step(cluster: Cluster) -> None:
    for step in TAKING:
        for fault in (signal.SIGKILL, signal.SIGSTOP):
            cut_off(cluster, step, fault, of_the_old_owner=False)
        cluster.wait_whole()
    assert cluster.check() > 1000


def cut_off(cluster: Cluster, step: str, fault: signal.Signals, *, of_the_old_owner: bool) -> None:
    """Move a partition; one of the two gets the signal when it comes to this step. The others go on."""
    reached = False
    while not reached:
        old, new = two_shards(cluster)
        victim = old if of_the_old_owner else new
        cluster.arm(victim, step, fault)
        cluster.move(cluster.owned_by(old)[0], new)
        reached = cluster.comes_to_it(victim)
    cluster.wait_replaced(victim)
    if fault == signal.SIGSTOP:
        cluster.go_on(victim)
        cluster.wait_ended(victim)


def two_shards(cluster: Cluster) -> list[str]:
    """Those that have been there the longest: one that was killed may be back already, and own nothing."""
    cluster.wait("two own something", lambda: len(owners(cluster)) >= 2)
    return owners(cluster)[:2]


def owners(cluster: Cluster) -> list[str]:
    view = cluster.view()
    members = sorted(view.members.values(), key=lambda member: member.started_at_ms)
    return [member.shard_id for member in members if view.owned_by(member.shard_id)]
