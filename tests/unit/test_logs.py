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


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_a_traceback_shows_no_local_variable(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    set_up_logs("info", log_format)

    def fail(token: str) -> None:
        raise RuntimeError(f"broken after {len(token)}")

    try:
        fail("hunter2-in-a-local-variable")
    except RuntimeError as error:
        get_logger().error("a request failed", exc_info=error)
    said = capsys.readouterr().err
    assert "broken after" in said and "test_logs.py" in said and "hunter2" not in said.replace(SOURCE, "")


# Source lines are shown; that one holds the word itself.
SOURCE = 'fail("hunter2-in-a-local-variable")'
