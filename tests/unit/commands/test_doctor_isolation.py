"""`shardctl doctor` says what this machine grants to isolated handlers; less than all is not an illness."""

from __future__ import annotations

import pytest

from shardwheel.commands.doctor import isolation
from shardwheel.settings import Settings
from shardwheel.workers.isolated import network_obstacle


def test_the_finding_says_what_was_tried() -> None:
    found = isolation(Settings())
    assert ("of their own" in found.state) == (network_obstacle("") == "")
    assert found.remedy == ""


def test_the_obstacle_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwheel.commands.doctor.network_obstacle", lambda user: "unshare: no")
    assert "(unshare: no)" in isolation(Settings()).state
