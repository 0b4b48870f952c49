"""Jobs with parents over HTTP, on the real server and PostgreSQL, as their runs' rows are."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import psycopg
import pytest

from shardwheel.api import views
from shardwheel.execution import Claimant, Claimed
from shardwheel.explaining import explain
from shardwheel.ids import id_of, text_of
from shardwheel.store.claim import claim
from shardwheel.store.explain import read_facts
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind
from tests.integration.api.rig import Rig
from tests.integration.store.gate import result_of

pytestmark = pytest.mark.servers


def child(api: Rig, *parents: str, **fields: Any) -> str:
    return str(api.job(cron=None, parents=list(parents), **fields)["id"])


def why(api: Rig, job_id: str) -> str:
    """The reason that an explanation of the job gives."""
    with psycopg.connect(api.dsn) as conn:
        return str(explain(read_facts(conn, "acme", id_of(job_id))).reason)


def run_all(api: Rig, most: int = 100) -> list[str]:
    """Let whatever waits run, and what follows; the ids of the jobs, in the order in which they ran."""
    ran: list[str] = []
    with psycopg.connect(api.dsn, autocommit=True) as conn:
        while len(ran) < most and (claimed := _claim(conn)):
            ran += [text_of(one.job_id) for one in claimed]
            with conn.transaction():
                settle(conn, [result_of(one, dag_run_id=one.dag_run_id) for one in claimed])
    return ran


def _claim(conn: psycopg.Connection[Any]) -> list[Claimed]:
    rows = conn.execute(
        "SELECT execution_id, job_id, partition, scheduled_ms, attempt FROM shardwheel.waiting_entries"
    ).fetchall()
    fires = [
        Fire(FORMAT_VERSION, FireKind.FIRE, execution_id, job_id, partition, 0, at_ms, at_ms, attempt)
        for execution_id, job_id, partition, at_ms, attempt in rows
    ]
    claimant = Claimant("w", "short", frozenset({"work"}), uuid.uuid4().bytes)
    with conn.transaction():
        return claim(conn, [(fire, 2) for fire in fires], claimant).claimed if fires else []


def test_children_run_after_their_parents_in_the_roots_run(api: Rig) -> None:
    root = str(api.job(name="import")["id"])
    check = child(api, root, name="check")
    publish = child(api, root, check)
    shown = api.call("GET", f"/jobs/{publish}").json()
    msgspec.convert(shown, views.JobView)
    assert (sorted(shown["parents"]), shown["dag_id"], shown["next_at"]) == (
        sorted([root, check]),
        root,
        None,
    )
    assert {one["id"] for one in api.call("GET", f"/jobs?parent={root}").json()["items"]} == {check, publish}
    assert {root, check, publish} <= {one["id"] for one in api.call("GET", "/jobs").json()["items"]}
    run_id = api.call("POST", f"/jobs/{root}:trigger").json()["execution_id"]
    assert why(api, publish) == "waits_for_root"
    assert run_all(api, most=1) == [root]
    assert why(api, publish) == "waits_for_parents"
    assert run_all(api) == [check, publish]
    (execution,) = api.call("GET", f"/jobs/{publish}/executions").json()["items"]
    assert (execution["origin"], execution["dag_run_id"], execution["state"]) == ("dag", run_id, "succeeded")
    assert api.call("GET", f"/executions/{run_id}").json()["dag_run_id"] == run_id
    again = api.call("POST", "/jobs", {name: shown[name] for name in shown if name in FIELDS})
    assert again.status_code == 201, again.text


FIELDS = {"task", "params", "parents", "timeout_s", "misfire", "catchup_window", "jitter_s", "overlap"}


def test_hands_reach_the_runs_of_a_job_and_their_ends_are_counted(api: Rig) -> None:
    root = str(api.job(name="root")["id"])
    child(api, root, name="b")
    run_id = api.call("POST", f"/jobs/{root}:trigger").json()["execution_id"]
    assert run_all(api, most=1) == [root]
    (shown,) = api.call("GET", f"/dags/{root}/runs").json()["items"]
    assert (shown["id"], shown["state"]) == (run_id, "running")
    before, cancelled = api.ended("succeeded"), api.ended("cancelled")
    done = api.call("POST", f"/dags/{root}/runs/{run_id}/tasks/b:force-complete", {"output": 1}).json()
    assert (done["state"], api.ended("succeeded") - before) == ("succeeded", 1)
    other = api.call("POST", f"/jobs/{root}:trigger").json()["execution_id"]
    assert run_all(api, most=1) == [root]
    assert api.call("POST", f"/dags/{root}/runs/{other}:cancel").json()["state"] == "cancelled"
    assert (api.ended("cancelled") - cancelled, run_all(api)) == (1, [])


def test_an_edge_is_put_and_deleted_on_record(api: Rig) -> None:
    root = str(api.job("edges")["id"])
    made = [api.job("edges", cron=None, parents=[root])["id"] for _ in range(2)]
    for _ in range(2):
        answer = api.call("PUT", f"/jobs/{made[1]}/dependencies/{made[0]}", tenant="edges")
        assert (answer.status_code, sorted(answer.json()["parents"])) == (200, sorted([root, made[0]]))
    cycle = api.call("PUT", f"/jobs/{made[0]}/dependencies/{made[1]}", tenant="edges")
    assert (cycle.status_code, cycle.json()["error"]["field"]) == (400, "parent_id")
    assert f"{made[0]} → {made[1]} → {made[0]}" in cycle.json()["error"]["message"]
    for _ in range(2):
        answer = api.call("DELETE", f"/jobs/{made[1]}/dependencies/{root}", tenant="edges")
        assert answer.json()["parents"] == [made[0]]
    last = api.call("DELETE", f"/jobs/{made[1]}/dependencies/{made[0]}", tenant="edges")
    assert (last.status_code, last.json()["error"]["code"]) == (409, "conflict")
    acts = api.call("GET", "/audit", tenant="edges").json()["items"]
    of_edges = [act for act in acts if act["action"] in ("job.depend", "job.undepend")]
    assert {(act["action"], act["object_id"]) for act in of_edges} == {
        ("job.depend", made[1]),
        ("job.undepend", made[1]),
    }
    assert len(of_edges) == 2


def test_refusals_name_the_field(api: Rig) -> None:
    root, foreign = str(api.job()["id"]), str(api.job("rival")["id"])
    for parents, status in (([foreign], 404), ([str(uuid.uuid4())], 404), (["x"], 400), ([root] * 2, 400)):
        answer = api.call("POST", "/jobs", {"task": "work", "parents": parents})
        assert (answer.status_code, answer.json()["error"]["field"]) == (status, "parents"), answer.text
    answer = api.call("PUT", f"/jobs/{child(api, root)}/dependencies/{foreign}")
    assert (answer.status_code, answer.json()["error"]["field"]) == (404, "parent_id")
    batch = [{"task": "work"}, {"task": "work", "parents": [root], "every": "5s"}]
    answer = api.call("POST", "/jobs:batch", batch)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "[1].every")
    for verb in ("pause", "resume", "trigger"):
        answer = api.call("POST", f"/jobs/{child(api, root)}:{verb}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")


def test_a_batch_of_children_and_a_child_with_a_key(api: Rig) -> None:
    root = str(api.job()["id"])
    batch = [{"task": "work", "parents": [root]} for _ in range(20)] + [{"task": "work", "every": "1h"}]
    made = api.call("POST", "/jobs:batch", batch).json()["items"]
    assert [one["parents"] for one in made] == [[root]] * 20 + [[]]
    keyed = {"task": "work", "parents": [root], "idempotency_key": "once"}
    first, second = (api.call("POST", "/jobs", keyed).json()["id"] for _ in range(2))
    assert first == second
    with psycopg.connect(api.dsn) as conn:
        (versions,) = conn.execute(
            "SELECT count(*) FROM shardwheel.dag_versions WHERE dag_id = %s", [root]
        ).fetchone() or (0,)
    assert versions == 2
    assert api.call("DELETE", f"/jobs/{first}").json()["state"] == "deleted"
    assert api.call("DELETE", f"/jobs/{root}").json()["state"] == "deleted"
    assert api.call("GET", f"/jobs/{made[0]['id']}").json()["state"] == "deleted"


def test_a_token_that_is_limited_to_some_tasks_sets_no_edges_of_others(api: Rig) -> None:
    root = str(api.job()["id"])
    one, two = child(api, root), child(api, root)
    answer = api.call("PUT", f"/jobs/{one}/dependencies/{two}", tasks=["email.send"])
    assert answer.status_code == 403
