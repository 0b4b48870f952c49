"""What a file makes of a cluster: found by name, changed where it differs, pruned only what is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shardwheel.api import dag_examples, examples
from shardwheel.commands.applying import Step, Wanted, differing, exported, plan, read_wanted, summary
from shardwheel.errors import ConflictError, UsageError
from tests.unit.commands.conftest import Shardctl

NOW_MS = 1_794_900_000_000
JOB = examples.JOB | {"name": "digest", "tags": ["billing", "apply:x"], "id": "1"}
SAID = {
    "name": "digest",
    "task": "email.send",
    "params": JOB["params"],
    "cron": "0  9 * * 1-5",
    "time_zone": "Europe/Berlin",
    "tags": ["billing"],
}


def wanted(*jobs: dict[str, Any], **more: Any) -> Wanted:
    return read_wanted({"set": "x", "jobs": list(jobs), **more}, "file", NOW_MS)


def steps(said: Wanted, *things: dict[str, Any], prune: bool = False) -> list[Step]:
    found = {("job", thing["name"]): thing for thing in things}
    return plan(said, found, [thing | {"apply_kind": "job"} for thing in things], prune)


def test_the_same_said_otherwise_is_no_change() -> None:
    spelled = SAID | {"catchup_window": 3600, "timeout_s": 60, "backoff": {"kind": "exponential"}}
    (step,) = steps(wanted(spelled), JOB)
    assert (step.action, step.id) == ("same", "1")


def test_only_what_differs_is_sent() -> None:
    (step,) = steps(wanted(SAID | {"timeout_s": 120, "pool": "long"}), JOB)
    assert step.changes == {"pool": ("short", "long"), "timeout_s": (60.0, 120)}
    assert step.body == {"pool": "long", "timeout_s": 120}
    left_out = {name: value for name, value in SAID.items() if name != "params"}
    (step,) = steps(wanted(left_out), JOB)
    assert step.body == {"params": {}}


def test_another_kind_of_schedule_takes_its_place() -> None:
    every = {name: value for name, value in SAID.items() if name not in ("cron", "time_zone")} | {
        "every": "5m"
    }
    (step,) = steps(wanted(every), JOB)
    assert step.body == {"every": "5m"}
    thing = JOB | {"cron": None, "every": "300s", "start_at": "2026-11-20T08:00:00.000Z"}
    assert differing("job", every | {"tags": JOB["tags"]}, thing) == {}


def test_where_an_interval_begins_goes_with_it() -> None:
    """Another interval counts from the edit, unless its start is said again."""
    every = {name: value for name, value in SAID.items() if name not in ("cron", "time_zone")}
    thing = JOB | {"cron": None, "every": "90s", "start_at": "2027-01-01T00:00:00.000Z"}
    (step,) = steps(wanted(every | {"every": "2m", "start_at": "2027-01-01T00:00:00Z"}), thing)
    assert step.body == {"every": "2m", "start_at": "2027-01-01T00:00:00Z"}
    assert list(step.changes) == ["every"]
    said = exported("job", thing)
    assert (said["every"], said["start_at"]) == ("90s", "2027-01-01T00:00:00.000Z")
    assert steps(wanted(said), thing)[0].action == "same"


def test_what_is_new_is_tagged_and_what_is_found_by_name_is_not() -> None:
    (step,) = steps(wanted(SAID))
    assert (step.action, step.body["tags"]) == ("create", ["billing", "apply:x"])
    (step,) = steps(wanted(SAID | {"timeout_s": 5}), JOB | {"tags": ["billing"]})
    assert step.body == {"timeout_s": 5}


def test_it_prunes_only_what_it_made() -> None:
    own = JOB | {"id": "2", "name": "old"}
    others = JOB | {"id": "3", "name": "theirs", "tags": ["apply:y"]}
    gone = JOB | {"id": "4", "name": "gone", "state": "deleted"}
    assert [step.action for step in steps(wanted(SAID), JOB, own, others, gone)] == ["same"]
    pruned = steps(wanted(SAID), JOB, own, others, gone, prune=True)
    assert [(step.action, step.id) for step in pruned] == [("same", "1"), ("delete", "2")]
    assert summary(pruned) == {"created": 0, "changed": 0, "deleted": 1, "unchanged": 1}


@pytest.mark.parametrize(
    ("file", "kind", "words"),
    [
        ({"jobs": [SAID, SAID]}, ConflictError, "twice"),
        ({"jobs": [{"task": "t", "cron": "* * * * *"}]}, UsageError, "no name"),
        ({"jobs": [{"name": "a", "task": "t"}]}, UsageError, "runs once, now"),
        ({"jobs": [{"name": "a", "task": "t", "delay": "5s"}]}, UsageError, "delay"),
        ({"jobs": [{"name": "a", "task": "t", "cron": "nonsense"}]}, UsageError, r"jobs\[0\] \(a\)"),
        ({"jobs": {"name": "a"}}, UsageError, "not a list"),
        ({"job": []}, UsageError, "other words at its top"),
        ({"jobs": [SAID | {"id": 5}]}, UsageError, "in quotes"),
        ({"jobs": [SAID | {"parents": ["1"]}]}, UsageError, "write a DAG"),
        ({"set": "x" * 80}, UsageError, "too long"),
        ([], UsageError, "lists"),
    ],
)
def test_a_file_that_can_not_be_meant_is_refused(file: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        read_wanted(file, "file", NOW_MS)


def test_what_is_exported_is_what_apply_would_leave_as_it_is() -> None:
    said = exported("job", JOB)
    assert said == SAID | {"cron": "0 9 * * 1-5"}
    assert steps(wanted(said), JOB)[0].action == "same"
    dag = dag_examples.DAG_WITH_TASKS | {"tags": ["apply:x"]}
    said = exported("dag", dag)
    assert said["tasks"] == [{"key": "extract", "task": "etl.extract", "params": {"bucket": "in"}}]
    (step,) = plan(wanted(dags=[said]), {("dag", "etl"): dag}, [], prune=False)
    assert step.action == "same", step


def test_apply_shows_the_difference_and_then_makes_it(shardctl: Shardctl, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(yaml.safe_dump({"jobs": [SAID | {"timeout_s": 120}]}))
    api = shardctl.api
    api.answers["GET /jobs"] = examples.page(JOB)
    api.answers["GET /jobs/{id}"] = JOB
    api.answers["GET /dags"] = {"items": [], "next_cursor": None}
    shown = shardctl("job", "apply", str(file), "--dry-run")
    assert "~ job digest (1)" in shown.text and "timeout_s: 60.0 → 120" in shown.text
    assert "would be: 0 created, 1 changed, 0 deleted, 0 unchanged" in shown.text
    assert "PATCH /jobs/{id}" not in api.names()
    made = shardctl("job", "apply", str(file), "-o", "json")
    assert made.value["changed"] == 1 and made.value["steps"][0]["changes"] == {
        "timeout_s": {"from": 60.0, "to": 120}
    }
    assert [one.body for one in api.asked if one.route == "PATCH /jobs/{id}"] == [{"timeout_s": 120}]
    api.answers["GET /jobs"] = {"items": [JOB, JOB | {"id": "2", "tags": []}], "next_cursor": None}
    refused = shardctl("job", "apply", str(file))
    assert refused.code == 4 and "2 jobs are named 'digest'" in refused.errors


def test_pruning_asks_first(shardctl: Shardctl, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("jobs: []")
    shardctl.api.answers["GET /jobs"] = examples.page(JOB)
    shardctl.api.answers["GET /dags"] = {"items": [], "next_cursor": None}
    assert shardctl("job", "apply", str(file), "--prune").code == 4
    assert "DELETE /jobs/{id}" not in shardctl.api.names()
    assert shardctl("job", "apply", str(file), "--prune", "--yes").code == 0
    assert "DELETE /jobs/{id}" in shardctl.api.names()


def test_export_says_what_a_file_can_not_hold(shardctl: Shardctl) -> None:
    jobs = [JOB, JOB | {"id": "2"}, JOB | {"id": "3", "name": ""}, JOB | {"id": "4", "parents": ["1"]}]
    shardctl.api.answers["GET /jobs"] = {"items": jobs, "next_cursor": None}
    shardctl.api.answers["GET /dags"] = {"items": [], "next_cursor": None}
    answer = shardctl("job", "export", "-o", "json")
    assert len(answer.value["jobs"]) == 3
    assert "left out: 1 jobs" in answer.errors and "3 jobs have no name, or that of another" in answer.errors
