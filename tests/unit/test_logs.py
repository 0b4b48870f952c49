"""Logs: JSON away from a terminal, with the process's context on every line."""

from __future__ import annotations

import json

import pytest

from shardwheel.errors import UsageError
from shardwheel.logs import get_logger, set_up_logs


def test_json_lines_carry_the_context_and_respect_the_level(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("info", "json", shard="s-1")
    log = get_logger(partition=7)
    log.debug("unseen")
    log.info("taken over", execution_id="e-1")
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["shard"], entry["partition"]) == ("taken over", "s-1", 7)
    assert (entry["execution_id"], entry["level"]) == ("e-1", "info")
    assert entry["timestamp"].endswith("Z")


def test_pretty_on_demand_and_unknown_levels_refused(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("debug", "pretty")
    get_logger().debug("seen")
    assert "seen" in capsys.readouterr().err
    with pytest.raises(UsageError, match="log_level"):
        set_up_logs("loud")
