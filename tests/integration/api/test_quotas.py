"""Limits of one tenant, as its row says: 429 with when to come again, and nobody else is touched."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.integration.api.rig import Rig, served

pytestmark = pytest.mark.servers

JOB = {"task": "work", "cron": "0 9 * * *"}


def limit(api: Rig, tenant: str, limits: str) -> None:
    with psycopg.connect(api.dsn) as conn:
        conn.execute("INSERT INTO shardwheel.tenants (tenant_id, limits) VALUES (%s, %s)", [tenant, limits])


def test_too_many_submissions_are_told_when_to_come_again(api: Rig) -> None:
    limit(api, "hasty", '{"submissions_per_s": 0.001}')
    job = api.job("hasty")
    refused = api.call("POST", "/jobs", JOB, tenant="hasty")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "limited")
    assert int(refused.headers["retry-after"]) > 900
    assert api.call("POST", f"/jobs/{job['id']}:trigger", tenant="hasty").status_code == 429
    assert api.call("POST", "/jobs:batch", [JOB], tenant="hasty").status_code == 429
    # Who looks is not limited, nor is anybody else.
    assert api.call("GET", f"/jobs/{job['id']}", tenant="hasty").status_code == 200
    assert api.call("POST", "/jobs", JOB, tenant="patient").status_code == 201


def test_active_jobs_are_limited_with_what_is_there_already(api: Rig) -> None:
    limit(api, "full", '{"active_jobs": 3, "something_else": true}')
    assert api.call("POST", "/jobs:batch", [JOB] * 2, tenant="full").status_code == 201
    refused = api.call("POST", "/jobs:batch", [JOB] * 2, tenant="full")
    assert (refused.status_code, refused.json()["error"]["field"]) == (429, "active_jobs")
    assert api.call("POST", "/jobs", JOB, tenant="full").status_code == 201
    assert api.call("POST", "/jobs", JOB, tenant="full").status_code == 429
    assert len(api.call("GET", "/jobs", tenant="full").json()["items"]) == 3


def test_limits_that_make_no_sense_leave_the_usual_ones(api: Rig) -> None:
    limit(api, "muddled", '{"active_jobs": "three"}')
    assert api.call("POST", "/jobs", JOB, tenant="muddled").status_code == 201


def test_params_of_a_tenant_may_be_limited_further(api: Rig) -> None:
    limit(api, "terse", '{"params_bytes": 20}')
    assert api.call("POST", "/jobs", JOB | {"params": {"a": "short"}}, tenant="terse").status_code == 201
    refused = api.call("POST", "/jobs", JOB | {"params": {"a": "longer than that"}}, tenant="terse")
    assert (refused.status_code, refused.json()["error"]["field"]) == (413, "params")


def test_nor_do_larger_params_come_by_another_way(api: Rig) -> None:
    limit(api, "laconic", '{"params_bytes": 20}')
    job, letter = api.job("laconic")["id"], api.letter("laconic")
    for method, path in (
        ("PATCH", f"/jobs/{job}"),
        ("POST", f"/jobs/{job}:trigger"),
        ("POST", f"/dead-letters/{letter}:redrive"),
    ):
        refused = api.call(method, path, {"params": {"a": "longer than that"}}, tenant="laconic")
        assert (refused.status_code, refused.json()["error"]["field"]) == (413, "params"), path


def test_the_size_of_a_dag_may_be_limited(api: Rig) -> None:
    limit(api, "small", '{"dag_tasks": 2, "active_jobs": 6, "params_bytes": 20}')
    dag = api.dag("small")
    tasks = [{"key": key, "task": "work"} for key in "abc"]
    for method, path in (("POST", "/dags"), ("PATCH", f"/dags/{dag['id']}")):
        refused = api.call(method, path, {"tasks": tasks}, tenant="small")
        assert (refused.status_code, refused.json()["error"]["field"]) == (413, "tasks")
        large = [{"key": "a", "task": "work", "params": {"a": "longer than that"}}]
        refused = api.call(method, path, {"tasks": large}, tenant="small")
        assert (refused.status_code, refused.json()["error"]["field"]) == (413, "tasks[0].params")
    # A DAG of two tasks is three jobs.
    api.dag("small")
    refused = api.call("POST", "/dags", {"tasks": tasks[:1]}, tenant="small")
    assert (refused.status_code, refused.json()["error"]["field"]) == (429, "active_jobs")


def test_dags_and_their_runs_are_submissions_too(api: Rig) -> None:
    limit(api, "hurried", '{"submissions_per_s": 0.001}')
    dag = api.dag("hurried")
    for method, path in (
        ("POST", "/dags"),
        ("PATCH", f"/dags/{dag['id']}"),
        ("POST", f"/dags/{dag['id']}:trigger"),
    ):
        body = {} if path.endswith("trigger") else {"tasks": [{"key": "a", "task": "work"}]}
        assert api.call(method, path, body, tenant="hurried").status_code == 429, path


def test_runs_and_edits_are_submissions_too(api: Rig) -> None:
    job, letter, dag = api.job("busy")["id"], api.letter("busy"), api.dag("busy")["id"]
    run = api.run(dag, "busy")
    api.end_task(run, "extract")
    span = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-10T00:00:00Z"}
    limit(api, "busy", '{"submissions_per_s": 0.001}')
    with served(api.dsn) as other:  # It reads the limit now, and has a token left.
        assert other.call("PATCH", f"/jobs/{job}", {"name": "one"}, tenant="busy").status_code == 200
        for method, path, body in (
            ("PATCH", f"/jobs/{job}", {"name": "two"}),
            ("POST", f"/jobs/{job}:backfill", span),
            ("POST", f"/dead-letters/{letter}:redrive", {}),
            ("POST", "/dead-letters:redrive", {"all": True}),
            ("POST", f"/dags/{dag}/runs/{run}:rerun", {}),
        ):
            refused = other.call(method, path, body, tenant="busy")
            assert (refused.status_code, int(refused.headers["retry-after"]) > 900) == (429, True), path


def test_pausing_makes_no_room_for_more_than_there_may_be(api: Rig) -> None:
    limit(api, "crafty", '{"active_jobs": 2}')
    first, dag = api.job("crafty")["id"], api.dag("paused dag")["id"]
    assert api.call("POST", f"/jobs/{first}:pause", tenant="crafty").status_code == 200
    with served(api.dsn) as other:  # It counts anew: none is active.
        assert other.call("POST", "/jobs:batch", [JOB] * 2, tenant="crafty").status_code == 201
        refused = other.call("POST", f"/jobs/{first}:resume", tenant="crafty")
        assert (refused.status_code, refused.json()["error"]["field"]) == (429, "active_jobs")
        assert other.call("GET", f"/jobs/{first}", tenant="crafty").json()["state"] == "paused"
        active = other.call("GET", "/jobs?state=active", tenant="crafty").json()["items"][0]["id"]
        # To resume what is active changes nothing, and asks for nothing.
        assert other.call("POST", f"/jobs/{active}:resume", tenant="crafty").status_code == 200
    assert api.call("POST", f"/dags/{dag}:pause", tenant="paused dag").status_code == 200
    limit(api, "paused dag", '{"active_jobs": 1}')
    with served(api.dsn) as other:
        assert other.call("POST", f"/dags/{dag}:resume", tenant="paused dag").status_code == 429


def test_a_repeat_gets_its_answer_however_full_it_is(api: Rig) -> None:
    """Whoever lost the answer of the last job that there was room for must learn of it all the same."""
    limit(api, "brimful", '{"active_jobs": 5}')
    job, dag = {**JOB, "idempotency_key": "a job"}, {"tasks": [{"key": "a", "task": "work"}]}
    asked = (
        ("/jobs", job),
        ("/jobs:batch", [job, {**JOB, "idempotency_key": "another"}]),
        ("/dags", dag | {"idempotency_key": "a dag"}),
    )

    def ask(path: str, body: Any) -> tuple[int, Any]:
        answer = api.call("POST", path, body, tenant="brimful")
        made = answer.json()
        return answer.status_code, [item["id"] for item in made.get("items", [made]) if "id" in item]

    first = [ask(path, body) for path, body in asked]
    assert [status for status, _ in first] == [201] * 3
    assert [ask(path, body) for path, body in asked] == first
    assert ask("/jobs", {**JOB, "idempotency_key": "a third"})[0] == 429
    assert ask("/jobs:batch", [job, JOB])[0] == 429
    assert ask("/dags", dag | {"idempotency_key": "a second"})[0] == 429
    assert ask("/jobs", job | {"task": "other"})[0] == 409
