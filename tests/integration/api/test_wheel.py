"""The wheels over HTTP: what the shards count themselves, and who did not."""

from __future__ import annotations

import pytest

from shardwheel.times import parse_time
from tests.integration.api.cluster import FIRST, SECOND
from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers

BEGIN = "2030-01-01T00:00:00Z"
END = "2030-01-01T01:00:00Z"


def test_who_answers_is_counted_and_who_does_not_is_named(api: Rig) -> None:
    begin_ms = parse_time(BEGIN, "from")
    dues_ms = [begin_ms, begin_ms + 1_800_000, begin_ms + 3_599_999, begin_ms + 3_600_000]
    api.cluster.holding.wheel.load([number.to_bytes(16, "big") for number in range(4)], dues_ms)
    api.view = api.cluster.view()
    params = {"from": BEGIN, "to": END, "buckets": "2"}
    answer = api.call("GET", "/wheel", params=params, role="operator").json()
    assert answer["items"] == [{"id": SECOND, "entries": 4, "counts": [1, 2]}]
    assert (answer["counts"], answer["bucket_ms"]) == ([1, 2], 1_800_000)
    assert answer["complete"] is False
    assert [shard["id"] for shard in answer["missing"]] == [FIRST]


def test_a_span_must_go_forward(api: Rig) -> None:
    answer = api.call("GET", "/wheel", params={"from": END, "to": BEGIN})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "to")


def test_without_etcd_nobody_knows_whom_to_ask(api: Rig) -> None:
    api.view = None
    assert api.call("GET", "/wheel").status_code == 503
