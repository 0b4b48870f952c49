"""A move that is cut off at each of its steps: the old owner, or the new one, is killed or stands still."""

from __future__ import annotations

import signal

import pytest

from tests.integration.cluster.rig import Cluster
from tests.integration.cluster.stepping import HANDING_OVER, TAKING

pytestmark = pytest.mark.servers
FAULTS = (signal.SIGKILL, signal.SIGSTOP)


def test_the_old_owner_at_each_step(cluster: Cluster) -> None:
    for step in HANDING_OVER:
        for fault in FAULTS:
            source, target = sorted(cluster.view().members)[:2]
            cut_off(cluster, source, step, fault, cluster.owned_by(source)[0], target)
    assert cluster.check() > 1000


def test_the_new_owner_at_each_step(cluster: Cluster) -> None:
    for step in TAKING:
        for fault in FAULTS:
            source, target = sorted(cluster.view().members)[:2]
            cut_off(cluster, target, step, fault, cluster.owned_by(source)[0], target)
    assert cluster.check() > 1000


def cut_off(
    cluster: Cluster, victim: str, step: str, fault: signal.Signals, partition: int, target: str
) -> None:
    """Move a partition; one of the two gets the signal when it comes to this step of it."""
    cluster.arm(victim, step, fault)
    cluster.say("partition", "move", str(partition), "--to", target)
    cluster.wait_reached(victim)
    cluster.wait_gone(victim)
    if fault == signal.SIGSTOP:
        cluster.go_on(victim)
    cluster.wait_started_over(victim)
