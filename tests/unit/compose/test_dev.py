"""What a wish for a stack comes to: which servers, which services, which settings."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from shardwheel.compose import ports, services
from shardwheel.compose.demo import _sum_up
from shardwheel.compose.demo_finding import Finding
from shardwheel.compose.dev import embedded_servers, reaching
from shardwheel.compose.services import ServiceLine, Wish, service_children
from shardwheel.errors import UsageError
from shardwheel.settings import Settings


def test_what_the_settings_point_elsewhere_is_not_started(tmp_path: Path) -> None:
    assert list(embedded_servers(tmp_path, Settings())) == ["postgres", "etcd", "kafka"]
    elsewhere = Settings(postgres_dsn="postgresql://db", kafka_bootstrap="kafka:9092", secret="theirs")
    servers = embedded_servers(tmp_path, elsewhere)
    assert list(servers) == ["etcd"]
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "port").write_text("2379\n")
    settings = reaching(elsewhere, servers, "ours")
    assert settings.etcd_endpoints == ("http://127.0.0.1:2379",)
    assert (settings.postgres_dsn, settings.kafka_bootstrap) == ("postgresql://db", "kafka:9092")
    assert settings.secret == "theirs"


def test_each_service_process_has_a_name_a_door_and_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        ServiceLine("shard", lambda wish: wish.shards),
        ServiceLine("worker", lambda wish: wish.workers, ("--pool", "long")),
    )
    monkeypatch.setattr(services, "SERVICES", lines)
    monkeypatch.setenv("SHARDWHEEL_HANDLERS", "of.the.environment")
    wish = Wish(folder=tmp_path, settings=Settings(handlers="of.the.flag"), shards=2, workers=1)
    children = service_children(wish)
    assert [(child.role, child.id) for child in children] == [
        ("shard", "shard-1"),
        ("shard", "shard-2"),
        ("worker", "worker-long-1"),
    ]
    assert len({child.address for child in children}) == 3
    assert children[0].argv[-1] == "shard"
    assert children[2].argv[-3:] == ("worker", "--pool", "long")
    for child in children:
        assert child.address == f"127.0.0.1:{child.environment['SHARDWHEEL_HTTP_PORT']}"
        assert child.environment["SHARDWHEEL_DATA"] == str(tmp_path)
        assert child.environment["SHARDWHEEL_HANDLERS"] == "of.the.flag"


def test_a_door_at_a_known_place_is_refused_in_one_line_when_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ServiceLine("api", lambda wish: 1, port=lambda wish: wish.settings.http_port)
    monkeypatch.setattr(services, "SERVICES", (line,))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} is taken: .* choose another with --http"):
            service_children(Wish(folder=tmp_path, settings=Settings(http_port=port)))
    free = ports.choose()
    [child] = service_children(Wish(folder=tmp_path, settings=Settings(http_port=free)))
    assert child.address == f"127.0.0.1:{free}"


def test_the_demo_fails_when_anything_it_promised_did_not_happen(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Finding("etcd", True, "version 3"), Finding("schema", False, "2 pending")
    assert _sum_up([good, good], 1.0) == 0
    assert _sum_up([good, bad], 1.0) == 1
    said = capsys.readouterr()
    assert "demo: 1 of 2 checks passed" in said.out
    assert said.err == "demo: schema: 2 pending\n"
