"""DAGs over HTTP: stored whole, versioned, run, mended by hand, on record."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.api.rig import DAG, Rig

pytestmark = pytest.mark.servers
TASKS: list[dict[str, Any]] = DAG["tasks"]


def audit(api: Rig, object_id: str) -> list[tuple[str, Any, Any]]:
    items = api.call("GET", f"/audit?object_id={object_id}").json()["items"]
    assert all((item["actor"], item["role"]) == ("ann", "admin") for item in items)
    return [(item["action"], item["details"]["before"], item["details"]["after"]) for item in items]


def states(run: dict[str, Any]) -> dict[str, str]:
    return {task["key"]: task["state"] for task in run["tasks"]}


def refusal(api: Rig, body: Any) -> tuple[int, str, str]:
    answer = api.call("POST", "/dags", body, tenant="refused")
    error = answer.json()["error"]
    return answer.status_code, error.get("field"), error["message"]


def test_a_dag_is_stored_read_and_listed_with_defaults(api: Rig) -> None:
    made = api.dag(cron="0 2 * * *", tags=["night"], name="the Nightly one")
    assert made["next_at"].endswith("T02:00:00.000Z")
    assert [(task["key"], task["depends_on"]) for task in made["tasks"]] == [
        ("extract", []),
        ("load", ["extract"]),
    ]
    assert (made["state"], made["policy"], made["task_count"], made["overlap"]) == (
        "active",
        "fail_fast",
        2,
        "allow",
    )
    assert api.call("GET", f"/dags/{made['id']}").json() == made
    assert made["partition"] in api.poked
    for query in ("tag=night", "q=nIghtly", "task=work&state=active", "from=2026-01-01T00:00:00Z&q=nightly"):
        found = [item["id"] for item in api.call("GET", f"/dags?{query}").json()["items"]]
        assert made["id"] in found, query
    for query in ("tag=day", "q=monthly", "task=nothing", "state=paused", "to=2026-01-01T00:00:00Z"):
        assert api.call("GET", f"/dags?{query}").json()["items"] == [], query
    (entry,) = audit(api, made["id"])
    assert entry[:2] == ("dag.create", None) and entry[2]["cron"] == "0 2 * * *"


def test_lists_are_paged(api: Rig) -> None:
    made = [api.dag("paged")["id"] for _ in range(3)]
    page = api.call("GET", "/dags?limit=2", tenant="paged").json()
    rest = api.call("GET", f"/dags?cursor={page['next_cursor']}", tenant="paged").json()
    assert [item["id"] for item in page["items"] + rest["items"]] == made and rest["next_cursor"] is None


def test_a_dag_that_is_none_is_refused_by_name(api: Rig) -> None:
    circle = [{"key": "a", "task": "w", "depends_on": ["b"]}, {"key": "b", "task": "w", "depends_on": ["a"]}]
    status, field, message = refusal(api, {"tasks": circle})
    assert (status, field) == (400, "tasks") and "a → b → a" in message
    for body, field in (
        ({"tasks": TASKS, "colour": "red"}, "colour"),
        ({"tasks": [{"key": "a", "task": "w", "colour": "red"}]}, "tasks[0].colour"),
        ({"tasks": [{"key": "a", "task": "w", "cron": "* * * * *"}]}, "tasks[0].cron"),
        ({"tasks": []}, "tasks"),
        ({}, "tasks"),
        ([], "body"),
        ({"tasks": TASKS, "idempotency_key": 7}, "idempotency_key"),
        ({"tasks": [{"key": "a", "task": "w", "params": {"password": "hunter2"}}]}, "tasks[0].params"),
    ):
        assert refusal(api, body)[:2] == (400, field)
    large = {"key": "a", "task": "w", "params": {"x": "y" * 65_536}}
    assert refusal(api, {"tasks": [large]})[:2] == (413, "tasks[0].params")
    assert api.call("GET", "/dags", tenant="refused").json()["items"] == []


def test_the_same_key_makes_the_same_dag_and_another_body_is_refused(api: Rig) -> None:
    first = api.call("POST", "/dags", DAG | {"idempotency_key": "once"}, tenant="keyed")
    again = api.call("POST", "/dags", DAG | {"idempotency_key": "once"}, tenant="keyed")
    assert (first.status_code, again.status_code) == (201, 201) and first.json() == again.json()
    other = api.call("POST", "/dags", DAG | {"name": "b", "idempotency_key": "once"}, tenant="keyed")
    assert (other.status_code, other.json()["error"]["field"]) == (409, "idempotency_key")
    assert len(api.call("GET", "/dags", tenant="keyed").json()["items"]) == 1
    assert len(api.call("GET", "/audit?action=dag.create", tenant="keyed").json()["items"]) == 1


def test_an_edit_makes_a_version_and_says_what_changed(api: Rig) -> None:
    dag = api.dag(every="1h")
    path = f"/dags/{dag['id']}"
    more = [*TASKS, {"key": "check", "task": "work", "depends_on": ["load"]}]
    edited = api.call("PATCH", path, {"every": None, "cron": "0 3 * * *", "tasks": more}).json()
    assert (edited["version"], edited["cron"], edited["task_count"]) == (2, "0 3 * * *", 3)
    assert "every" not in edited
    assert api.call("PATCH", path, {"cron": "0 3 * * *"}).json()["version"] == 2
    (update, _) = audit(api, dag["id"])
    assert update == (
        "dag.update",
        {"version": 1, "every": "1h", "tasks": [], "task_count": 2},
        {"version": 2, "cron": "0 3 * * *", "tasks": more[2:], "task_count": 3},
    )
    for body, field in (({}, "body"), ({"colour": 1}, "colour"), ({"tasks": []}, "tasks")):
        refused = api.call("PATCH", path, body)
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, field)


def test_an_edit_can_not_smuggle_another_task_in(api: Rig) -> None:
    dag = api.dag("limited")
    tasks = [*TASKS, {"key": "check", "task": "other"}]
    answer = api.call(
        "PATCH", f"/dags/{dag['id']}", {"tasks": tasks}, tenant="limited", tasks=["work", "email.send"]
    )
    assert answer.status_code == 403 and "'other'" in answer.json()["error"]["message"]
    assert api.call("GET", f"/dags/{dag['id']}", tenant="limited").json()["version"] == 1
    partly = api.call("POST", f"/dags/{dag['id']}:trigger", tenant="limited", tasks=["work"])
    assert partly.status_code == 403


def test_pause_resume_delete_said_twice_are_on_record_once(api: Rig) -> None:
    dag = api.dag(cron="0 2 * * *")
    path = f"/dags/{dag['id']}"
    for method, verb, state in (
        ("POST", ":pause", "paused"),
        ("POST", ":resume", "active"),
        ("DELETE", "", "deleted"),
    ):
        for _ in range(2):
            answer = api.call(method, path + verb)
            assert (answer.status_code, answer.json()["state"]) == (200, state), answer.text
    assert [entry[0] for entry in audit(api, dag["id"])] == [
        "dag.delete",
        "dag.resume",
        "dag.pause",
        "dag.create",
    ]
    assert audit(api, dag["id"])[0][1:] == ({"state": "active"}, {"state": "deleted"})
    assert api.call("PATCH", path, {"name": "b"}).status_code == 404
    assert api.call("POST", f"{path}:trigger").status_code == 409
    assert dag["id"] not in [item["id"] for item in api.call("GET", "/dags").json()["items"]]
    assert dag["id"] in [item["id"] for item in api.call("GET", "/dags?state=deleted").json()["items"]]


def test_a_trigger_answers_with_the_run_and_the_same_key_with_the_same_run(api: Rig) -> None:
    dag = api.dag()
    api.poked.clear()
    path = f"/dags/{dag['id']}"
    first = api.call("POST", f"{path}:trigger", {"idempotency_key": "one"})
    assert first.status_code == 202 and api.poked == [dag["partition"]]
    run_id = first.json()["run_id"]
    assert first.json() == {"id": run_id, "run_id": run_id, "dag_id": dag["id"]}
    assert api.call("POST", f"{path}:trigger", {"idempotency_key": "one"}).json()["run_id"] == run_id
    other = api.call("POST", f"{path}:trigger", {"idempotency_key": "one", "params": {"n": 1}})
    assert (other.status_code, other.json()["error"]["field"]) == (409, "idempotency_key")
    assert [entry[0] for entry in audit(api, dag["id"])] == ["dag.trigger", "dag.create"]
    assert api.call("POST", f"{path}:trigger", {}).json()["run_id"] != run_id
    waiting = api.call("GET", f"{path}/runs/{run_id}").json()
    assert (waiting["state"], waiting["version"], waiting["dag"]) == ("queued", None, "etl")
    for verb in (":rerun", "/tasks/extract:skip", "/tasks/extract:force-complete"):
        refused = api.call("POST", f"{path}/runs/{run_id}{verb}", {})
        assert (refused.status_code, refused.json()["error"]["field"]) == (409, "run")
    for _ in range(2):
        cancelled = api.call("POST", f"{path}/runs/{run_id}:cancel")
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert [entry[0] for entry in audit(api, run_id)] == ["execution.cancel"]


def test_params_of_a_trigger_are_the_runs(api: Rig) -> None:
    dag_id = api.dag()["id"]
    run_id = api.call("POST", f"/dags/{dag_id}:trigger", {"params": {"n": 1}}).json()["id"]
    assert api.call("GET", f"/dag-runs/{run_id}").json()["params"] == {"n": 1}
    begun = api.call("GET", f"/dag-runs/{api.run(dag_id, params={'n': 2})}").json()
    assert (begun["state"], begun["params"]) == ("running", {"n": 2})
    for params, status in (([1], 400), ({"x": "y" * 65_536}, 413), ({"password": "hunter2"}, 400)):
        refused = api.call("POST", f"/dags/{dag_id}:trigger", {"params": params})
        assert (refused.status_code, refused.json()["error"]["field"]) == (status, "params")


def test_runs_that_end_by_cancelling_an_execution_are_counted(api: Rig) -> None:
    dag = api.dag(policy="continue")
    cancelled, failed = api.ended("cancelled"), api.ended("failed")
    run_id = api.run(dag["id"])
    assert api.call("POST", f"/executions/{run_id}:cancel").json() == {"outcome": "cancelled"}
    assert (api.ended("cancelled"), api.ended("failed")) == (cancelled + 1, failed)
    (first, _) = api.call("GET", f"/dag-runs/{api.run(dag['id'])}").json()["tasks"]
    assert api.call("POST", f"/executions/{first['execution_id']}:cancel").json() == {"outcome": "cancelled"}
    assert (api.ended("cancelled"), api.ended("failed")) == (cancelled + 1, failed + 1)


def test_whether_a_run_kept_its_sla_is_a_metric(api: Rig) -> None:
    def told() -> list[float]:
        return [api.ended(word, "shardwheel_dag_sla_total") for word in ("met", "missed")]

    def end(**fields: Any) -> Any:
        dag = api.dag(**fields)
        path = f"/dags/{dag['id']}/runs/{api.run(dag['id'])}"
        assert api.call("GET", path).json()["sla_met"] is None
        for key in ("extract", "load"):
            done = api.call("POST", f"{path}/tasks/{key}:force-complete", {})
        assert done.json()["state"] == "succeeded"
        return done.json()["sla_met"]

    met, missed = told()
    assert (end(sla_s=3600), told()) == (True, [met + 1, missed])
    assert (end(sla_s=0.001), told()) == (False, [met + 1, missed + 1])
    assert (end(), told()) == (None, [met + 1, missed + 1])


def test_hands_said_twice_change_nothing_more_and_are_on_record_once(api: Rig) -> None:
    dag = api.dag(policy="continue")
    path = f"/dags/{dag['id']}/runs"
    run_id = api.run(dag["id"])
    api.end_task(run_id, "extract")
    for verb, body, state in (
        (":rerun", {}, "running"),
        ("/tasks/extract:skip", {"children": "run"}, "running"),
        ("/tasks/load:force-complete", {"output": 1}, "partial"),
    ):
        answers = [api.call("POST", f"{path}/{run_id}{verb}", body) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json() == answers[1].json()
        assert answers[0].json()["state"] == state
    assert [entry[0] for entry in reversed(audit(api, run_id))] == [
        "dag_run.rerun",
        "dag_task.skip",
        "dag_task.force_complete",
    ]
    other = api.run(dag["id"])
    for _ in range(2):
        assert api.call("POST", f"{path}/{other}:cancel").json()["state"] == "cancelled"
    assert [entry[0] for entry in audit(api, other)] == ["dag_run.cancel"]


def test_a_dag_reads_durations_as_a_job_does(api: Rig) -> None:
    assert api.dag(catchup_window="90m")["catchup_window"] == "5400s"


def test_a_run_is_listed_read_and_mended_by_hand(api: Rig) -> None:
    dag = api.dag(policy="continue")
    path = f"/dags/{dag['id']}/runs"
    run_id = api.run(dag["id"])
    (listed,) = api.call("GET", f"{path}?state=running&from=2026-01-01T00:00:00Z").json()["items"]
    assert (listed["id"], listed["unfinished"], listed["origin"]) == (run_id, 2, "trigger")
    assert api.call("GET", f"{path}?to=2026-01-01T00:00:00Z").json()["items"] == []
    assert states(api.call("GET", f"{path}/{run_id}").json()) == {"extract": "queued", "load": "pending"}
    api.end_task(run_id, "extract")
    assert states(api.call("GET", f"{path}/{run_id}").json()) == {
        "extract": "dead",
        "load": "upstream_failed",
    }
    api.poked.clear()
    again = api.call("POST", f"{path}/{run_id}:rerun", {"tasks": ["extract"]}).json()
    assert states(again) == {"extract": "queued", "load": "pending"} and api.poked == [dag["partition"]]
    done = api.call("POST", f"{path}/{run_id}/tasks/extract:force-complete", {"output": [1]}).json()
    assert states(done) == {"extract": "force_completed", "load": "queued"}
    assert done["tasks"][0]["output"] == [1]
    over = api.call("POST", f"{path}/{run_id}/tasks/load:skip", {"children": "run"}).json()
    assert (over["state"], states(over)["load"]) == ("partial", "skipped")
    assert audit(api, run_id) == [
        (
            "dag_task.skip",
            {"state": "running", "tasks": {"load": "queued"}},
            {"state": "partial", "tasks": {"load": "skipped"}},
        ),
        (
            "dag_task.force_complete",
            {"state": "running", "tasks": {"extract": "queued"}},
            {"state": "running", "tasks": {"extract": "force_completed"}},
        ),
        (
            "dag_run.rerun",
            {"state": "failed", "tasks": {"extract": "dead"}},
            {"state": "running", "tasks": {"extract": "queued"}},
        ),
    ]


def test_a_run_that_was_begun_is_cancelled(api: Rig) -> None:
    dag = api.dag()
    run_id = api.run(dag["id"])
    answer = api.call("POST", f"/dags/{dag['id']}/runs/{run_id}:cancel").json()
    assert (answer["state"], states(answer)) == ("cancelled", {"extract": "cancelled", "load": "skipped"})
    ((action, before, after),) = audit(api, run_id)
    assert (action, before["state"], after["state"]) == ("dag_run.cancel", "running", "cancelled")
    other = api.run(dag["id"])
    assert api.call("POST", f"/executions/{other}:cancel").json() == {"outcome": "cancelled"}
    assert [entry[0] for entry in audit(api, other)] == ["dag_run.cancel"]


def test_what_is_not_there_is_not_found(api: Rig) -> None:
    one, other, job = api.dag(), api.dag(), api.job()
    run_id = api.run(one["id"])
    for path in (
        f"/dags/{job['id']}",
        f"/dags/{other['id']}/runs/{run_id}",
        f"/dags/{one['id']}/runs/{one['id']}",
        f"/dags/{job['id']}/runs",
    ):
        assert api.call("GET", path).status_code == 404, path
    for path, field in (
        (f"/dags/{other['id']}/runs/{run_id}:cancel", "run"),
        (f"/dags/{other['id']}/runs/{run_id}/tasks/extract:skip", "run"),
        (f"/dags/{one['id']}/runs/{run_id}/tasks/nothing:skip", "task"),
        (f"/dags/{job['id']}:trigger", "id"),
    ):
        answer = api.call("POST", path, {})
        assert (answer.status_code, answer.json()["error"]["field"]) == (404, field), path
    assert api.call("GET", f"/dags/{one['id']}/runs/{run_id}").json()["state"] == "running"
    odd = api.call("POST", f"/dags/{one['id']}/runs/odd:cancel")
    assert (odd.status_code, odd.json()["error"]["field"]) == (400, "run")
