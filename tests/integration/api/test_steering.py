"""The cluster steered over HTTP: what is asked for stands in etcd, and who asked in the audit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.api.cluster import FIRST, SECOND
from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers


def audited(api: Rig, tenant: str) -> list[tuple[str, str, dict[str, Any]]]:
    entries = api.call("GET", "/audit", tenant=tenant).json()["items"]
    return [(entry["action"], entry["object_id"], entry["details"]) for entry in entries]


def test_a_drain_is_asked_for_and_taken_back(api: Rig) -> None:
    drained = api.call("POST", f"/shards/{FIRST}:drain", tenant="drains")
    assert (drained.status_code, drained.json()["state"], drained.json()["partitions"]) == (
        202,
        "draining",
        256,
    )
    assert api.cluster.view().is_draining(FIRST)
    refused = api.call("POST", f"/shards/{SECOND}:drain", tenant="drains")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert api.call("POST", f"/shards/{FIRST}:undrain", tenant="drains").json()["state"] == "active"
    assert api.cluster.view().drain is None
    # What was refused is not on record.
    assert audited(api, "drains") == [
        ("shard.undrain", FIRST, {"before": {"state": "draining"}, "after": {"state": "active"}}),
        ("shard.drain", FIRST, {"before": {"state": "active"}, "after": {"state": "draining"}}),
    ]


def test_a_shard_that_is_not_there_is_not_found(api: Rig) -> None:
    answer = api.call("POST", "/shards/nobody:drain", tenant="nobody drains")
    assert answer.status_code == 404 and audited(api, "nobody drains") == []


def test_a_rebalance_is_asked_for_with_how_much_will_move(api: Rig) -> None:
    answer = api.call("POST", "/rebalance", tenant="levels")
    assert (answer.status_code, answer.json()) == (202, {"asked": True, "partitions": 128})
    assert api.cluster.view().rebalance_now_revision > 0
    ((action, _, _),) = audited(api, "levels")
    assert action == "cluster.rebalance"


def test_a_partition_is_moved_and_levelling_switched_off(api: Rig) -> None:
    moved = api.call("POST", "/partitions/17:move", {"to": SECOND}, tenant="moves")
    assert (moved.status_code, moved.json()["pin"]) == (202, SECOND)
    assert api.cluster.view().pins[17] == SECOND
    assert api.call("POST", "/partitions/256:move", {"to": SECOND}, tenant="moves").status_code == 404
    assert api.call("POST", "/partitions/17:move", {"to": "nobody"}, tenant="moves").status_code == 404
    assert api.call("PATCH", "/rebalance", {"automatic": False}, tenant="moves").json() == {
        "automatic": False
    }
    assert api.cluster.view().rebalance_off
    assert api.call("PATCH", "/rebalance", {"automatic": True}, tenant="moves").json()["automatic"] is True
    actions = [action for action, _, _ in audited(api, "moves")]
    assert actions == ["cluster.rebalance_automatic"] * 2 + ["partition.move"]


def test_where_a_rebalance_stands_is_said_with_the_reason(api: Rig) -> None:
    standing = api.call("GET", "/rebalance", tenant="looks").json()
    assert (standing["state"], standing["reason"]) == ("stalled", "no shard leads")
    assert standing["planned"]["partitions"] == len(standing["planned"]["moves"]) > 0
