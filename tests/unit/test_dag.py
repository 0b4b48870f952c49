"""A DAG as posted: what is taken, and how what is wrong is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from shardwheel import dag
from shardwheel.dag import GREATEST_DEPTH, MOST_EDGES, MOST_TASKS, merged, parse_dag, says_the_same
from shardwheel.errors import TooLargeError, UsageError

NOW_MS = 1_795_003_200_000
PAGE = Path(__file__).parents[2] / "docs" / "dags.md"


def task(key: str, *parents: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "task": "work", "depends_on": list(parents)} | fields


def chain(length: int) -> list[dict[str, Any]]:
    return [task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(length)]


DIAMOND = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")]


def test_a_whole_dag_of_the_contract_is_taken() -> None:
    dag = parse_dag(
        {
            "name": "etl",
            "cron": "0 2 * * *",
            "time_zone": "Europe/Berlin",
            "policy": "retry",
            "sla_s": 1.5,
            "max_retries": 2,
            "overlap": "skip",
            "tasks": [
                task("extract", params={"from": "s3"}, pool="long", priority="high", timeout_s=900),
                task("each", "extract", fan_out=True, max_retries=0, not_after_s=60),
                task("load", "each", backoff={"kind": "fixed", "base_s": 1}),
            ],
        }
    )
    assert (dag.policy, dag.sla_ms, dag.shape.depth) == ("retry", 1_500, 3)
    assert (dag.columns()["task"], dag.columns()["overlap"], dag.columns()["max_retries"]) == ("", "skip", 2)
    assert dag.timing(NOW_MS).schedule.kind == "cron"
    extract, each, load = dag.tasks
    assert (extract.columns()["pool"], extract.columns()["timeout_ms"]) == ("long", 900_000)
    assert (each.fan_out, each.columns()["not_after_ms"]) == (True, 60_000)
    assert (load.columns()["task_key"], load.columns()["backoff"]["kind"]) == ("load", "fixed")


def test_without_a_schedule_only_a_trigger_runs_it() -> None:
    dag = parse_dag({"tasks": DIAMOND})
    timing = dag.timing(NOW_MS)
    assert (timing.schedule.kind, dag.policy, dag.sla_ms) == ("none", "fail_fast", None)
    assert dag.shape.order == (0, 1, 2, 3)


def test_times_as_yaml_reads_them_are_kept_as_json() -> None:
    dag = parse_dag({"run_at": datetime(2026, 11, 20, 9, tzinfo=UTC), "tasks": DIAMOND})
    assert dag.definition["run_at"] == "2026-11-20T09:00:00Z"
    assert dag.timing(NOW_MS).schedule.kind == "once"


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "tasks", "missing"),
        ({"tasks": []}, "tasks", "0 tasks"),
        ({"tasks": [task("a")] * (MOST_TASKS + 1)}, "tasks", "10001 tasks"),
        ({"tasks": DIAMOND, "delay": "1s"}, "delay", "no such field"),
        ({"tasks": DIAMOND, "polcy": "retry"}, "polcy", "did you mean 'policy'"),
        ({"tasks": DIAMOND, "policy": "often"}, "policy", "one of fail_fast, continue, retry"),
        ({"tasks": DIAMOND, "sla_s": 0}, "sla_s", "out of range"),
        (
            {"tasks": DIAMOND, "overlap": "often"},
            "overlap",
            "'often' is unknown; choose one of allow, queue, skip",
        ),
        ({"tasks": ["a"]}, "tasks[0]", "not an object"),
        ({"tasks": [{"task": "work"}]}, "tasks[0].key", "None is not a key"),
        ({"tasks": [task("a:b")]}, "tasks[0].key", "letters, digits"),
        ({"tasks": [task("a"), task("a")]}, "tasks[1].key", r"key of tasks\[0\] already"),
        ({"tasks": [task("a", cron="* * * * *")]}, "tasks[0].cron", "when its parents are over"),
        ({"tasks": [task("a", run_at="now")]}, "tasks[0].run_at", "give the DAG the schedule"),
        ({"tasks": [task("a", overlap="skip")]}, "tasks[0].overlap", "no such field"),
        ({"tasks": [{"key": "a"}]}, "tasks[0].task", r"is missing.*task 'a'"),
        ({"tasks": [task("a"), task("b", timeout_s=0)]}, "tasks[1].timeout_s", r"out of range.*task 'b'"),
        ({"tasks": [task("a", "zz")]}, "tasks[0].depends_on", "'zz', which is no task"),
        ({"tasks": [task("a"), task("b", "a", "a")]}, "tasks[1].depends_on", "names 'a' twice"),
        ({"tasks": [task("a", depends_on="b")]}, "tasks[0].depends_on", "not a list of keys"),
        ({"tasks": [task("a", fan_out=1)]}, "tasks[0].fan_out", "true or false"),
        ({"tasks": [task("a", fan_out=True)]}, "tasks[0].fan_out", "0 parents"),
        (
            {"tasks": [task("a"), task("b"), task("c", "a", "b", fan_out=True)]},
            "tasks[2].fan_out",
            "exactly one",
        ),
        (
            {"tasks": [task("a"), task("b", "a", fan_out=True), task("c", "b", fan_out=True)]},
            "tasks[2].fan_out",
            "is a fan-out itself",
        ),
        ({"tasks": [task("a", "a")]}, "tasks", "a → a;"),
        (
            {"tasks": [task("x"), task("c", "b", "x"), task("b", "a"), task("a", "c")]},
            "tasks",
            "c → a → b → c;",
        ),
        ({"tasks": chain(GREATEST_DEPTH + 1)}, "tasks", "chain of 1001"),
        ({"tasks": DIAMOND, "name": "x" * 17_000_000}, "body", "bytes"),
        ({"tasks": DIAMOND, "name": object()}, "body", "JSON"),
    ],
)
def test_refusals_name_the_field(body: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_dag(body)
    assert caught.value.field == field


def test_a_long_cycle_is_spelled_by_its_ends() -> None:
    tasks = chain(5_000)
    tasks[0]["depends_on"] = ["t4999"]
    with pytest.raises(UsageError, match=r"t0 → t1 → .* → … → t4999 → t0 \(5000 tasks\)"):
        parse_dag({"tasks": tasks})


def test_edges_have_a_limit_of_their_own() -> None:
    width = 320
    upper = [task(f"u{n}") for n in range(width)]
    lower = [task(f"l{n}", *(f"u{m}" for m in range(width))) for n in range(width)]
    assert width * width > MOST_EDGES
    with pytest.raises(UsageError, match="102400 edges"):
        parse_dag({"tasks": upper + lower})


def test_the_largest_dags_are_taken() -> None:
    assert parse_dag({"tasks": chain(GREATEST_DEPTH)}).shape.depth == GREATEST_DEPTH
    assert len(parse_dag({"tasks": [task(f"t{n}") for n in range(MOST_TASKS)]}).tasks) == MOST_TASKS


def test_a_definition_is_measured_as_it_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand tasks of a few hundred such numbers each would come back as 600 MB."""
    monkeypatch.setattr(dag, "DEFINITION_LIMIT_BYTES", 100_000)
    grown, same = ({"n": [number] * 200} for number in (1e308, "1e308"))
    parse_dag({"tasks": [task(f"t{n}", params=same) for n in range(3)]})
    with pytest.raises(TooLargeError, match="written out"):
        parse_dag({"tasks": [task(f"t{n}", params=grown) for n in range(3)]})


def test_bounds_of_a_schedule_need_one() -> None:
    with pytest.raises(UsageError, match="max_runs"):
        parse_dag({"tasks": DIAMOND, "max_runs": 3}).timing(NOW_MS)


def test_an_edit_lies_on_top_of_the_definition() -> None:
    definition = {"name": "etl", "cron": "0 2 * * *", "time_zone": "Europe/Berlin", "tasks": DIAMOND}
    assert merged(definition, {"every": "1h"}) == {
        "name": "etl",
        "every": "1h",
        "time_zone": "Europe/Berlin",
        "tasks": DIAMOND,
    }
    assert "cron" not in merged(definition, {"cron": None})
    assert merged(definition, {"tasks": DIAMOND[:1], "name": None}).keys() == {"cron", "time_zone", "tasks"}


def test_tasks_that_only_stand_elsewhere_run_alike() -> None:
    assert says_the_same(task("a"), task("b", "a", fan_out=True))
    assert not says_the_same(task("a"), task("a", params={"x": 1}))


def test_the_pages_example_is_taken() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    dag = parse_dag(yaml.safe_load(text))
    assert (dag.timing(NOW_MS).schedule.kind, dag.policy, dag.shape.depth) == ("cron", "continue", 3)
