"""Kafka's recorded classes: used when they are there, and only haste."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.compose import jars, warm
from shardwheel.compose.kafka import KafkaServer, classes_path
from shardwheel.compose.server import StartError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHARDWHEEL_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "ensure", lambda: None)
    classes_path().parent.mkdir(parents=True)
    return classes_path().parent


def recorded(folder: Path, path: Path) -> None:
    path.write_text("classes")


def failing(folder: Path, path: Path) -> None:
    raise StartError("Kafka ended while starting\nand here is its log")


def test_classes_are_recorded_once_and_used_from_then_on(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = KafkaServer(tmp_path / "kafka")
    assert server._classes() == []
    monkeypatch.setattr(warm, "_record", recorded)
    assert warm.ensure()
    assert list(cache.iterdir()) == [classes_path()]
    assert server._classes() == [f"-XX:AOTCache={classes_path()}"]
    monkeypatch.setattr(warm, "_record", failing)
    assert warm.ensure(), "they are there: nothing is recorded again"


def test_without_them_the_set_up_goes_on_and_says_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warm, "_record", failing)
    assert not warm.ensure()
    assert list(cache.iterdir()) == []
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "Kafka's classes: Kafka ended while starting; it will start slower"
