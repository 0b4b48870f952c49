"""Shards killed, and stopped for longer than their leases: as owners, as leader, as standby."""

from __future__ import annotations

import signal

import pytest

from tests.integration.cluster.rig import Cluster
from tests.integration.cluster.stepping import STORING
from tests.simulation.checker import ViolationError

pytestmark = pytest.mark.servers


def test_owners_and_leaders_that_die_or_stand_still(cluster: Cluster) -> None:
    cluster.kill(owner := cluster.followers()[0])
    cluster.wait_gone(owner)
    cluster.wait_whole()

    # With a watermark in its hand, which it wants to store when it wakes.
    cluster.arm(owner := cluster.followers()[0], STORING, signal.SIGSTOP)
    cluster.wait_reached(owner)
    cluster.wait_gone(owner)
    cluster.go_on(owner)
    cluster.wait_started_over(owner)
    assert cluster.refused(owner)

    cluster.kill(leader := cluster.leader())
    cluster.wait_gone(leader)
    cluster.wait_whole()

    cluster.stop(leader := cluster.leader())
    cluster.wait_gone(leader)
    assert cluster.leader() != leader
    cluster.go_on(leader)
    cluster.wait_started_over(leader)
    assert cluster.check() > 1000


def test_a_standby_that_is_gone_when_it_is_needed(cluster: Cluster) -> None:
    """The owner dies right after its standby: the third one has to load first."""
    owner, standby = cluster.seat(0)
    cluster.kill(standby)
    cluster.kill(owner)
    cluster.wait_gone(owner)
    cluster.wait_whole()

    owner, standby = cluster.seat(0)
    cluster.stop(standby)
    cluster.kill(owner)
    cluster.wait_gone(owner)
    cluster.go_on(standby)
    cluster.wait_started_over(standby)
    assert cluster.check() > 1000


def test_the_check_would_find_a_lost_run_and_a_doubled_one(cluster: Cluster) -> None:
    """The tests above can fail."""
    cluster.check()
    with cluster.connect() as conn:
        conn.execute(
            """DELETE FROM shardwheel.executions WHERE execution_id =
               (SELECT execution_id FROM shardwheel.executions WHERE kind = 0 AND state = 'succeeded' LIMIT 1)"""
        )
    with pytest.raises(ViolationError, match="lost"):
        cluster.check()
    cluster.repeat_a_run()
    with pytest.raises(ViolationError, match="once too often"):
        cluster.check()
