"""etcd killed, frozen for longer than every lease, wiped: what is owned is fired on, and owned again."""

from __future__ import annotations

import shutil

import pytest

from shardwheel.compose.etcd import EtcdServer
from tests.integration.cluster.rig import Cluster

pytestmark = pytest.mark.servers
LONGER_THAN_A_LEASE_S = 4.0


def test_etcd_killed_frozen_and_wiped(cluster: Cluster, harmed_etcd: EtcdServer) -> None:
    cluster.tell("kill etcd")
    harmed_etcd.kill()
    cluster.wait_fired(LONGER_THAN_A_LEASE_S)
    harmed_etcd.start()
    cluster.wait_whole()

    cluster.tell("freeze etcd")
    harmed_etcd.freeze()
    cluster.wait_fired(LONGER_THAN_A_LEASE_S)
    harmed_etcd.thaw()
    cluster.wait_whole()

    cluster.tell("wipe etcd")
    harmed_etcd.kill()
    cluster.wait_fired()
    shutil.rmtree(harmed_etcd.data)
    harmed_etcd.start()
    cluster.wait_whole()
    assert cluster.check() > 1000
