"""`shardctl dag …` on a real PostgreSQL: what it stores, prints and refuses, and with which exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import yaml
from typer.testing import CliRunner

from shardwheel.cli import app, exit_code_of
from shardwheel.dag_run import Ended
from shardwheel.errors import ShardwheelError
from shardwheel.execution import Claimant
from shardwheel.ids import id_of, scheduled_ms_of
from shardwheel.store.claim import claim
from shardwheel.store.dag_resolve import resolve
from shardwheel.store.jobs import get_job
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind

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
def say(with_api: dict[str, str]) -> Say:
    def say(*arguments: str, text: str = "") -> tuple[int, str]:
        answer = CliRunner().invoke(app, ["dag", *arguments], env=with_api, input=text)
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


def test_out_of_reach_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwheel.commands.calling.RETRY_S", 0.0)
    environment = {"SHARDWHEEL_API_URL": "http://127.0.0.1:9", "SHARDWHEEL_TOKEN": "t"}
    answer = CliRunner().invoke(app, ["dag", "list"], env=environment)
    assert isinstance(answer.exception, ShardwheelError)
    assert exit_code_of(answer.exception) == 5


def test_hands_on_a_run(say: Say, migrated_database: str) -> None:
    tasks: list[dict[str, Any]] = [{"key": "a", "task": "work"}]
    tasks += [{"key": key, "task": "work", "depends_on": [parent]} for parent, key in ("ab", "bc", "cd")]
    tasks[1]["fan_out"] = True
    body = msgspec.json.encode({"tasks": tasks}).decode()
    dag_id = asked(say, "create", "-", text=body)["id"]
    run_id = asked(say, "trigger", dag_id)["run_id"]
    assert say("force-complete", run_id, "a")[0] == 4
    begin(migrated_database, dag_id, run_id)
    done = asked(say, "force-complete", run_id, "a", "--result", "[1, 2]")
    assert states(done) == {"a": "force_completed", "b": "running", "c": "pending", "d": "pending"}
    assert done["tasks"][1]["fan_out"] == {"items": 2, "open": 2, "failed": 0, "skipped": 0}
    assert "0 of 2" in say("run", "show", run_id)[1]
    assert say("force-complete", run_id, "a", "--result", "nonsense")[0] == 2
    assert states(asked(say, "skip", run_id, "b"))["c"] == "queued"
    assert states(asked(say, "skip", run_id, "b"))["b"] == "skipped"
    assert say("skip", run_id, "a")[0] == 4
    assert states(asked(say, "skip", run_id, "c", "--children", "skip"))["d"] == "upstream_skipped"
    assert [run["state"] for run in asked(say, "runs", dag_id)] == ["partial"]
    assert say("rerun", run_id)[0] == 4
    assert say("skip", run_id, "zz")[0] == 3


def test_hands_said_twice_are_on_record_once(say: Say, migrated_database: str) -> None:
    text = "{policy: continue, tasks: [{key: a, task: work}, {key: b, task: work, depends_on: [a]}]}"
    dag_id = asked(say, "create", "-", text=text)["id"]
    run_id = asked(say, "trigger", dag_id, "--params", '{"day": 7}')["run_id"]
    begin(migrated_database, dag_id, run_id)
    kill(migrated_database, run_id)
    assert asked(say, "run", "show", run_id)["params"] == {"day": 7}
    for words, seen in (
        (("rerun", run_id, "--task", "a"), {"a": "queued", "b": "pending"}),
        (("force-complete", run_id, "a"), {"a": "force_completed", "b": "queued"}),
        (("skip", run_id, "b"), {"a": "force_completed", "b": "skipped"}),
    ):
        assert [states(asked(say, *words)) for _ in range(2)] == [seen, seen]
    with psycopg.connect(migrated_database) as conn:
        rows = conn.execute("SELECT action FROM shardwheel.audit WHERE object_id = %s ORDER BY at", [run_id])
        actions = [action for (action,) in rows]
    assert actions == ["dag_run.rerun", "dag_task.force_complete", "dag_task.skip"]


def test_a_run_is_cancelled_when_somebody_says_so(say: Say, migrated_database: str) -> None:
    dag_id = asked(say, "create", "-", text="tasks: [{key: a, task: work}]")["id"]
    run_id = asked(say, "trigger", dag_id)["run_id"]
    begin(migrated_database, dag_id, run_id)
    assert say("cancel", run_id)[0] == 4
    assert asked(say, "cancel", run_id, "--yes")["state"] == "cancelled"
    assert states(asked(say, "cancel", run_id, "--yes")) == {"a": "cancelled"}
    with psycopg.connect(migrated_database) as conn:
        actors = conn.execute("SELECT action, actor FROM shardwheel.audit").fetchall()
    assert [one for one in actors if one[0] == "dag_run.cancel"] == [("dag_run.cancel", "ann")]


def begin(dsn: str, dag_id: str, run_id: str) -> None:
    """A worker claims what the trigger made: the run begins."""
    with psycopg.connect(dsn) as conn:
        job = get_job(conn, "default", id_of(dag_id))
        at_ms = scheduled_ms_of(id_of(run_id))
        fire = (FORMAT_VERSION, FireKind.FIRE, id_of(run_id), job.job_id, job.partition, 0, at_ms, at_ms, 1)
        claim(conn, [(Fire(*fire), job.priority)], Claimant("w", "short", frozenset({"work"}), bytes(16)))


def kill(dsn: str, run_id: str) -> None:
    """What waits of the run dies, as settling would end it."""
    with psycopg.connect(dsn) as conn:
        rows = conn.execute(
            "UPDATE shardwheel.executions SET state = 'dead' WHERE dag_run_id = %s"
            " RETURNING uuid_send(job_id)",
            [run_id],
        ).fetchall()
        resolve(conn, [Ended(id_of(run_id), task_id, None, "dead", None) for (task_id,) in rows])


def states(run: dict[str, Any]) -> dict[str, str]:
    return {task["key"]: task["state"] for task in run["tasks"]}
