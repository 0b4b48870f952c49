"""Shards killed, and stopped for longer than their leases: as owners, as leader, as standby."""

from __future__ import annotations

import signal

import pytest

from tests.integration.cluster.rig import Cluster
from tests.integration.cluster.stepping import STORING
from tests.integration.cluster.tables import judge
from tests.simulation.checker import ViolationError

pytestmark = pytest.mark.servers


def test_owners_and_leaders_that_die_or_stand_still(cluster: Cluster) -> None:
    cluster.kill(owner := cluster.followers()[0])
    cluster.wait_replaced(owner)
    cluster.wait_whole()

    # With a watermark in its hand, which it wants to store when it wakes.
    cluster.arm(owner := cluster.followers()[0], STORING, signal.SIGSTOP)
    assert cluster.comes_to_it(owner)
    cluster.wait_replaced(owner)
    cluster.go_on(owner)
    cluster.wait_ended(owner)
    assert cluster.refused(owner)
    cluster.wait_whole()
    assert owner not in cluster.view().members

    cluster.kill(leader := cluster.leader())
    cluster.wait_replaced(leader)
    cluster.wait_whole()

    cluster.stop(leader := cluster.leader())
    cluster.wait_replaced(leader)
    assert cluster.leader() != leader
    cluster.go_on(leader)
    cluster.wait_ended(leader)
    cluster.wait_whole()
    assert cluster.check() > 1000


def test_a_standby_that_is_gone_when_it_is_needed(cluster: Cluster) -> None:
    """The owner dies right after its standby: the third one has to load first."""
    owner, standby = cluster.seat(0)
    cluster.kill(standby)
    cluster.kill(owner)
    cluster.wait_replaced(owner)
    cluster.wait_whole()

    owner, standby = cluster.seat(0)
    cluster.stop(standby)
    cluster.kill(owner)
    cluster.wait_replaced(owner)
    cluster.go_on(standby)
    cluster.wait_ended(standby)
    cluster.wait_whole()
    assert cluster.check() > 1000


def test_the_check_would_find_a_lost_run_and_a_doubled_one(cluster: Cluster) -> None:
    """The tests here can fail."""
    found, through_ms = cluster.evidence()
    assert judge(found, through_ms) > 1000
    lost = next(row for row in found.tables.executions if row.kind == 0 and row.state == "succeeded")
    others = [row for row in found.tables.executions if row is not lost]
    with pytest.raises(ViolationError, match="lost"):
        judge(found._replace(tables=found.tables._replace(executions=others)), through_ms)
    doubled = next(line for line in found.runs_before if line.startswith("begins"))
    with pytest.raises(ViolationError, match="once too often"):
        judge(found._replace(runs_before=[*found.runs_before, doubled]), through_ms)
