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
            source, target = two_shards(cluster)
            move(cluster, source, target, victim=source, step=step, fault=fault)
        cluster.wait_whole()
    assert cluster.check() > 1000


def test_the_new_owner_at_each_step(cluster: Cluster) -> None:
    for step in TAKING:
        for fault in (signal.SIGKILL, signal.SIGSTOP):
            source, target = two_shards(cluster)
            move(cluster, source, target, victim=target, step=step, fault=fault)
        cluster.wait_whole()
    assert cluster.check() > 1000


def two_shards(cluster: Cluster) -> list[str]:
    """Those that have been there the longest: one that was killed may be back already, and own nothing."""
    members = cluster.view().members.values()
    return [member.shard_id for member in sorted(members, key=lambda member: member.started_at_ms)][:2]


def move(
    cluster: Cluster, source: str, target: str, *, victim: str, step: str, fault: signal.Signals
) -> None:
    """Move a partition; one of the two gets the signal when it comes to this step. The others go on."""
    cluster.arm(victim, step, fault)
    cluster.say("partition", "move", str(cluster.owned_by(source)[0]), "--to", target)
    cluster.wait_reached(victim)
    cluster.wait_replaced(victim)
    if fault == signal.SIGSTOP:
        cluster.go_on(victim)
        cluster.wait_ended(victim)
