"""The verbs that steer a cluster, straight on etcd: when the API is down, and only then."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from shardwheel.commands.cluster import Cluster
from shardwheel.commands.context import current_settings
from shardwheel.compose.stack import default_folder, make_folder, write_stack
from shardwheel.compose.state import Process
from shardwheel.store.pool import Pool
from tests.unit.commands.conftest import Shardctl
from tests.unit.coordinator.clusters import cluster, shard

ETCD = {"SHARDWHEEL_ETCD_ENDPOINTS": "127.0.0.1:1"}


@pytest.fixture
def down(shardctl: Shardctl, monkeypatch: pytest.MonkeyPatch) -> Shardctl:
    """An API that answers nothing, a cluster of two in memory, and no PostgreSQL."""

    def with_cluster(data: Path | None, work: Callable[[Cluster], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            leases = await cluster(shard("a"), shard("b"))
            return await work(Cluster(current_settings(data), leases, cast(Pool, None)))

        return trio.run(run)

    monkeypatch.setattr("shardwheel.commands.cluster.with_cluster", with_cluster)
    monkeypatch.setattr("shardwheel.commands.calling.RETRY_S", 0.0)
    shardctl.environment |= ETCD
    for name in ("GET /shards", "GET /partitions", "GET /rebalance", "PATCH /rebalance", "POST /rebalance"):
        shardctl.api.answers[name] = (503, "PostgreSQL is away")
    for name in ("POST /shards/{id}:drain", "POST /shards/{id}:undrain", "POST /partitions/{id}:move"):
        shardctl.api.answers[name] = (503, "PostgreSQL is away")
    return shardctl


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("shard list", {"id": "a", "partitions": 128}),
        ("shard show b", {"id": "b", "state": "active"}),
        ("shard drain b", {"id": "b", "state": "draining", "drained": False}),
        ("shard undrain b", {"id": "b", "state": "active"}),
        ("partition move 3 --to a", {"partition": 3, "pin": "a"}),
        ("rebalance auto off", {"automatic": False}),
    ],
)
def test_etcd_is_enough(down: Shardctl, line: str, shown: dict[str, Any]) -> None:
    answer = down(*line.split(), "-o", "json")
    assert answer.code == 0, answer.errors
    value = answer.value[0] if isinstance(answer.value, list) else answer.value
    assert shown.items() <= value.items()
    assert answer.errors == "shardctl: PostgreSQL is away; asking etcd itself\n"


@pytest.mark.parametrize("line", ["partition list", "rebalance status", "rebalance --dry-run"])
def test_where_jobs_are_counted_it_says_what_it_wants_too(down: Shardctl, line: str) -> None:
    answer = down(*line.split())
    assert answer.code == 2 and "SHARDWHEEL_POSTGRES_DSN" in answer.errors


def test_an_address_that_was_typed_means_that_cluster(down: Shardctl) -> None:
    answer = down("shard", "list", "--api", down.api.url, "--token", "t")
    assert answer.code == 5 and "etcd" not in answer.errors


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, down: Shardctl) -> Path:
    """A `shardctl dev` that runs here; the settings name no etcd."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    del down.environment["SHARDWHEEL_ETCD_ENDPOINTS"]
    return make_folder(default_folder())


def test_a_named_api_that_is_down_never_leads_to_the_etcd_of_a_dev_that_runs_here(
    down: Shardctl, dev: Path
) -> None:
    write_stack(dev, {"etcd_endpoints": ["127.0.0.1:1"]}, [])
    answer = down("rebalance", "auto", "off")
    assert answer.code == 5 and "asking etcd" not in answer.errors


def test_nor_from_a_profile(
    down: Shardctl, dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stack(dev, {"etcd_endpoints": ["127.0.0.1:1"]}, [])
    monkeypatch.chdir(tmp_path)
    Path("shardwheel.toml").write_text(f'[profiles.far]\napi_url = "{down.api.url}"\ntoken = "t"\n')
    assert down("--profile", "far", "rebalance", "auto", "off").code == 5


def test_the_address_of_a_dev_leads_to_its_etcd(down: Shardctl, dev: Path) -> None:
    api = Process("api", "api-1", os.getpid(), down.api.url.removeprefix("http://"), "/log")
    write_stack(dev, {"etcd_endpoints": ["127.0.0.1:1"]}, [api])
    assert down("rebalance", "auto", "off").code == 0


def test_a_refusal_is_an_answer(down: Shardctl) -> None:
    down.api.answers["POST /shards/{id}:drain"] = (409, "it is the last one")
    answer = down("shard", "drain", "b")
    assert answer.code == 4 and "etcd" not in answer.errors
