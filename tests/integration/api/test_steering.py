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
