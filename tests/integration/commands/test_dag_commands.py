"""`shardctl dag …` on a real PostgreSQL: what it stores, prints and refuses, and with which exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from shardwheel.cli import app, exit_code_of
from shardwheel.errors import ShardwheelError

pytestmark = pytest.mark.servers
Say = Callable[..., tuple[int, str]]

ETL = """
name: etl
cron: "0 2 * * *"
time_zone: Europe/Berlin
start_at: 2026-12-01T00:00:00Z
policy: continue
tasks:
  - {key: extract, task: etl.extract, params: {day: 2026-11-20}}
  - {key: load, task: etl.load, depends_on: [extract], timeout_s: 900}
"""


@pytest.fixture
def say(migrated_database: str) -> Say:
    def say(*arguments: str, text: str = "") -> tuple[int, str]:
        environment = {"SHARDWHEEL_POSTGRES_DSN": migrated_database}
        answer = CliRunner().invoke(app, ["dag", *arguments], env=environment, input=text)
        if isinstance(answer.exception, ShardwheelError):
            return exit_code_of(answer.exception), str(answer.exception)
        assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
        return answer.exit_code, answer.stdout

    return say


def asked(say: Say, *arguments: str, text: str = "") -> Any:
    code, answer = say(*arguments, "-o", "json", text=text)
    assert code == 0, answer
    return msgspec.json.decode(answer)


def test_a_dag_goes_in_from_yaml_and_comes_back(say: Say, tmp_path: Path) -> None:
    file = tmp_path / "etl.yaml"
    file.write_text(ETL)
    made = asked(say, "create", str(file))
    assert (made["name"], made["cron"], made["policy"]) == ("etl", "0 2 * * *", "continue")
    assert made["start_at"] == "2026-12-01T00:00:00.000Z"
    assert [task["key"] for task in made["tasks"]] == ["extract", "load"]
    assert made["tasks"][0]["params"] == {"day": "2026-11-20"}
    code, printed = say("get", made["id"])
    assert (code, "Europe/Berlin" in printed, "etl.extract" in printed) == (0, True, True)
    code, printed = say("get", made["id"], "-o", "yaml")
    assert yaml.safe_load(printed)["id"] == made["id"]
    assert [dag["id"] for dag in asked(say, "list")] == [made["id"]]


def test_it_is_steered_and_its_runs_are_shown(say: Say) -> None:
    body = msgspec.json.encode({"tasks": [{"key": "a", "task": "work"}]}).decode()
    dag_id = asked(say, "create", "-", text=body)["id"]
    assert asked(say, "pause", dag_id)["state"] == "paused"
    assert asked(say, "resume", dag_id)["state"] == "active"
    changed = asked(say, "update", dag_id, "-", text="every: 1h\nsla_s: 60")
    assert (changed["version"], changed["every"], changed["sla_s"]) == (2, "1h", 60)
    run_id = asked(say, "trigger", dag_id)["run_id"]
    shown = asked(say, "run", "show", run_id)
    assert (shown["state"], [task["state"] for task in shown["tasks"]]) == ("queued", ["pending"])
    assert say("run", "show", run_id)[0] == 0
    assert asked(say, "runs", dag_id) == []
    code, problem = say("delete", dag_id)
    assert (code, "--yes" in problem) == (4, True)
    assert asked(say, "delete", dag_id, "--yes")["state"] == "deleted"
    assert asked(say, "list") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tasks: [{key: a, task: t, depends_on: [b]}, {key: b, task: t, depends_on: [a]}]", "a → b → a"),
        ("tasks: [{key: a, task: t, cron: '* * * * *'}]", "can't have a schedule"),
        ("tasks: [}", "neither JSON nor YAML"),
        ("- a", "not an object"),
        ("1: 2", "not an object"),
        ("tasks: &again [*again]", "JSON"),
    ],
)
def test_a_file_that_says_nonsense_is_wrong_usage(say: Say, text: str, words: str) -> None:
    code, problem = say("create", "-", text=text)
    assert (code, words in problem) == (2, True), problem


def test_what_is_not_there_is_not_found(say: Say, tmp_path: Path) -> None:
    nobody = "00000000-0000-7000-8000-000000000000"
    for arguments in (
        ["get"],
        ["pause"],
        ["resume"],
        ["trigger"],
        ["runs"],
        ["run", "show"],
        ["delete", "--yes"],
    ):
        code, problem = say(*arguments, nobody)
        assert (code, "there is no" in problem) == (3, True), (arguments, problem)
    assert say("create", str(tmp_path / "none.yaml"))[0] == 2
    assert say("get", "nonsense")[0] == 2
    file = tmp_path / "dag.json"
    file.write_text("tasks: []")
    assert "is not JSON" in say("create", str(file))[1]


def test_out_of_reach_is_said_so(tmp_path: Path) -> None:
    environment = {"SHARDWHEEL_POSTGRES_DSN": f"host={tmp_path} dbname=none"}
    answer = CliRunner().invoke(app, ["dag", "list"], env=environment)
    assert isinstance(answer.exception, ShardwheelError)
    assert exit_code_of(answer.exception) == 5
