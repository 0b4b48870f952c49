"""Jobs over HTTP, on the real server and PostgreSQL."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psycopg
import pytest

from shardwheel.api import views
from shardwheel.ids import id_of, partition_of_id
from tests.integration.api.rig import DAG, Rig, served

pytestmark = pytest.mark.servers


def audit(api: Rig, tenant: str = "acme", **words: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.call("GET", "/audit", params=words, tenant=tenant).json()["items"]
    return items


def test_a_job_is_answered_with_its_defaults_and_its_owner_is_poked(api: Rig) -> None:
    more: dict[str, Any] = {"tags": ["billing"], "callback_url": "https://example.org/done"}
    job = api.job(cron="0 9 * * 1-5", time_zone="Europe/Berlin", **more)
    msgspec.convert(job, views.JobView)
    assert (job["state"], job["pool"], job["max_retries"], job["tags"]) == ("active", "short", 3, ["billing"])
    assert job["callback_url"] == "https://example.org/done"
    assert job["next_at"].endswith(":00.000Z")
    assert api.poked[-1] == job["partition"]
    assert api.call("GET", f"/jobs/{job['id']}").json() == job


def test_what_was_read_can_be_sent_back(api: Rig) -> None:
    for fields in (
        {"cron": "0 9 * * *"},
        {"every": "90s", "cron": None},
        {"run_at": "2199-01-01T00:00:00Z", "cron": None},
    ):
        job = api.job(**fields)
        own = {"id", "kind", "state", "next_at", "created_at", "version", "partition", "dag_id"}
        posted = {name: value for name, value in job.items() if name not in own and value is not None}
        again = api.call("POST", "/jobs", posted)
        assert again.status_code == 201, again.text
        assert {name: again.json().get(name) for name in posted} == posted


def test_a_refusal_names_field_problem_and_remedy(api: Rig) -> None:
    answer = api.call("POST", "/jobs", {"task": "work", "cron": "every monday"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["field"]) == ("invalid", "cron")
    assert error["message"].startswith("cron: ") and ";" in error["message"]
    unknown = api.call("POST", "/jobs", {"task": "work", "corn": "* * * * *"})
    assert unknown.json()["error"]["field"] == "corn"
    missing = api.call("POST", "/jobs", {})
    assert missing.json()["error"]["field"] == "task"
    inside: dict[str, Any] = {"task": "work", "backoff": {"kind": "fixed", "base": 1}}
    assert api.call("POST", "/jobs", inside).json()["error"]["field"] == "backoff.base"
    batch = api.call("POST", "/jobs:batch", [{"task": "work"}, inside])
    assert batch.json()["error"]["field"] == "[1].backoff.base"
    dag = api.call("POST", "/dags", {"tasks": [inside | {"key": "a"}]})
    assert dag.json()["error"]["field"] == "tasks[0].backoff.base"


def test_jobs_that_are_posted_together_each_get_their_own_answer(api: Rig) -> None:
    """They share transactions: one that is refused spoils no other."""

    def post(number: int) -> tuple[int, Any]:
        end_at = "1999-01-01T00:00:00Z" if number % 5 == 0 else None
        body = {"task": "work", "cron": "0 9 * * *", "name": f"n{number}", "end_at": end_at}
        answer = api.call("POST", "/jobs", body, tenant="together")
        return answer.status_code, answer.json().get("name")

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(post, range(60)))
    assert answers == [(400, None) if n % 5 == 0 else (201, f"n{n}") for n in range(60)]
    assert len(audit(api, "together", action="job.create")) == 48


def test_a_batch_is_stored_as_a_whole_or_not_at_all(api: Rig) -> None:
    jobs = [{"task": "work", "name": f"b{n}", "every": "1h"} for n in range(1_000)]
    answer = api.call("POST", "/jobs:batch", jobs, tenant="batch")
    assert answer.status_code == 201
    assert [item["name"] for item in answer.json()["items"]] == [job["name"] for job in jobs]
    refused = api.call("POST", "/jobs:batch", [jobs[0], {"task": "work", "every": "soon"}], tenant="refused")
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "[1].every")
    assert api.call("GET", "/jobs", tenant="refused").json()["items"] == []
    assert len(audit(api, "batch", limit="200")) == 200


def test_pages_are_stable_under_inserts(api: Rig) -> None:
    made = [api.job("pages", name=f"p{n}", tags=["even"] if n % 2 == 0 else [])["id"] for n in range(7)]
    first = api.call("GET", "/jobs?limit=3", tenant="pages").json()
    api.job("pages", name="later")
    second = api.call("GET", f"/jobs?limit=4&cursor={first['next_cursor']}", tenant="pages").json()
    assert [item["id"] for item in first["items"] + second["items"]] == made
    last = api.call("GET", f"/jobs?cursor={second['next_cursor']}", tenant="pages").json()
    assert ([item["name"] for item in last["items"]], last["next_cursor"]) == (["later"], None)
    tagged = api.call("GET", "/jobs?tag=even", tenant="pages").json()["items"]
    assert [item["name"] for item in tagged] == ["p0", "p2", "p4", "p6"]
    found = api.call("GET", "/jobs?q=LATE", tenant="pages").json()["items"]
    assert [item["name"] for item in found] == ["later"]


def test_an_idempotency_key_gives_the_same_job_and_refuses_another_body(api: Rig) -> None:
    body = {"task": "work", "delay": "1h", "idempotency_key": "once"}
    first, again = api.call("POST", "/jobs", body), api.call("POST", "/jobs", body)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    other = api.call("POST", "/jobs", body | {"task": "other"})
    assert (other.status_code, other.json()["error"]["field"]) == (409, "idempotency_key")
    assert api.call("POST", "/jobs", body, tenant="rival").json()["id"] != first.json()["id"]
    assert len(audit(api, object_id=first.json()["id"])) == 1


def test_the_same_key_at_the_same_time_makes_one_job(api: Rig) -> None:
    body = {"task": "work", "delay": "1h", "idempotency_key": "race"}
    with ThreadPoolExecutor(8) as threads:
        ids = {
            answer.json()["id"] for answer in threads.map(lambda _: api.call("POST", "/jobs", body), range(8))
        }
    assert len(ids) == 1


def test_the_same_key_at_two_processes_at_the_same_time_makes_one_job(api: Rig) -> None:
    """Singly, in batches, with children, and of DAGs."""
    parent = api.job("two", cron=None, delay="1d")["id"]
    job = {"task": "work", "delay": "1h"}
    with served(api.dsn) as other, ThreadPoolExecutor(16) as threads:
        for number in range(5):
            one, two = ({**job, "idempotency_key": f"{number} {name}"} for name in "ab")
            child = {"task": "work", "parents": [parent], "idempotency_key": f"{number} c"}
            for path, bodies in (
                ("/jobs", [one]),
                ("/jobs:batch", [[one, two], [two, one]]),
                ("/jobs:batch", [[child, two], [one, child]]),
                ("/dags", [DAG | {"idempotency_key": f"{number} d"}]),
            ):
                asked = [
                    threads.submit(rig.call, "POST", path, body, tenant="two")
                    for _ in range(4)
                    for body in bodies
                    for rig in (api, other)
                ]
                answers = [one.result(60) for one in asked]
                assert {answer.status_code for answer in answers} == {201}, [one.text for one in answers]
            refused = other.call("POST", "/jobs", one | {"task": "other"}, tenant="two")
            assert (refused.status_code, refused.json()["error"]["field"]) == (409, "idempotency_key")
    made = api.call("GET", "/jobs?limit=200", tenant="two").json()["items"]
    assert len(made) == 1 + 5 * 3 and len(api.call("GET", "/dags", tenant="two").json()["items"]) == 5
    created = [entry for entry in audit(api, "two", limit="200") if entry["action"].endswith(".create")]
    assert len(created) == 1 + 5 * 4


def test_an_edit_is_on_record_with_before_and_after(api: Rig) -> None:
    job = api.job(name="old")
    answer = api.call("PATCH", f"/jobs/{job['id']}", {"name": "new", "cron": "0 10 * * *"})
    assert (answer.json()["name"], answer.json()["cron"]) == ("new", "0 10 * * *")
    entry = audit(api, object_id=job["id"], action="job.update")[0]
    assert (entry["actor"], entry["role"]) == ("ann", "admin")
    assert entry["details"] == {
        "before": {"cron": "0 9 * * *", "name": "old"},
        "after": {"cron": "0 10 * * *", "name": "new"},
    }
    wrong: list[Any] = [{}, [], {"idempotency_key": "x"}, {"state": "paused"}]
    for body in wrong:
        assert api.call("PATCH", f"/jobs/{job['id']}", body).status_code == 400


def test_pause_resume_and_delete(api: Rig) -> None:
    path = f"/jobs/{api.job(every='1h', cron=None)['id']}"
    for _ in range(2):
        paused = api.call("POST", f"{path}:pause")
        assert (paused.status_code, paused.json()["state"], paused.json()["next_at"]) == (200, "paused", None)
    assert api.call("GET", f"{path}/next").json() == {"items": [], "next_cursor": None, "fires_at": []}
    resumed = api.call("POST", f"{path}:resume", {"missed": "skip"})
    assert (resumed.json()["state"], resumed.json()["backfilled"]) == ("active", 0)
    assert len(api.call("GET", f"{path}/next?n=3").json()["items"]) == 3
    assert api.call("DELETE", path).json()["state"] == "deleted"
    assert api.call("DELETE", path).status_code == 200
    assert api.call("POST", f"{path}:pause").status_code == 404
    assert api.call("POST", f"{path}:trigger").status_code == 409
    actions = [entry["action"] for entry in audit(api, object_id=path.removeprefix("/jobs/"))]
    assert actions == ["job.delete", "job.resume", "job.pause", "job.create"]


def paused_for_hours(api: Rig, job_id: str) -> None:
    """As if it had been made and paused some hours ago: the trigger would set these times to now."""
    api.call("POST", f"/jobs/{job_id}:pause")
    with psycopg.connect(api.dsn) as conn:
        conn.execute("ALTER TABLE shardwheel.jobs DISABLE TRIGGER jobs_before_change")
        conn.execute(
            """UPDATE shardwheel.jobs SET effective_from = clock_timestamp() - interval '190 minutes',
                      anchor_at = anchor_at - interval '10 hours 30 minutes', start_at = NULL
                WHERE job_id = %s""",
            [job_id],
        )
        conn.execute("ALTER TABLE shardwheel.jobs ENABLE TRIGGER jobs_before_change")


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("one", 1), ("all", 3)])
def test_what_was_missed_while_it_was_paused(api: Rig, missed: str, count: int) -> None:
    job = api.job(every="1h", cron=None)
    paused_for_hours(api, job["id"])
    resumed = api.call("POST", f"/jobs/{job['id']}:resume", {"missed": missed})
    assert resumed.json()["backfilled"] == count
    with psycopg.connect(api.dsn) as conn:
        rows = conn.execute(
            "SELECT count FROM shardwheel.work_rows WHERE job_id = %s", [job["id"]]
        ).fetchall()
    assert rows == ([(count,)] if count else [])


def test_a_trigger_by_key_is_one_run(api: Rig) -> None:
    path = f"/jobs/{api.job()['id']}"
    body = {"params": {"n": 1}, "idempotency_key": "k"}
    first, again = api.call("POST", f"{path}:trigger", body), api.call("POST", f"{path}:trigger", body)
    assert first.status_code == 202 and first.json() == again.json()
    on_record = f"/audit?action=job.trigger&object_id={path.removeprefix('/jobs/')}"
    assert len(api.call("GET", on_record).json()["items"]) == 1
    assert api.call("POST", f"{path}:trigger").json() != first.json()
    items = api.call("GET", f"{path}/executions?origin=trigger").json()["items"]
    assert len(items) == 2
    msgspec.convert(items, list[views.ExecutionView])


def test_a_trigger_by_key_at_the_same_time_is_one_run_and_other_params_are_refused(api: Rig) -> None:
    path = f"/jobs/{api.job()['id']}"
    body = {"params": {"n": 1}, "idempotency_key": "race"}
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: api.call("POST", f"{path}:trigger", body), range(16)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["execution_id"] for answer in answers}) == 1
    assert len(api.call("GET", f"{path}/executions").json()["items"]) == 1
    for params in ({"n": 2}, None):
        other = api.call("POST", f"{path}:trigger", body | {"params": params})
        assert (other.status_code, other.json()["error"]["field"]) == (409, "idempotency_key")
    # Another job has keys of its own.
    another = api.call("POST", f"/jobs/{api.job()['id']}:trigger", body)
    assert another.status_code == 202


def expire_keys(api: Rig) -> None:
    """As if a day had gone by."""
    with psycopg.connect(api.dsn) as conn:
        conn.execute("UPDATE shardwheel.idempotency_keys SET expires_at = now() - interval '1 ms'")


def test_a_key_that_ran_out_triggers_a_new_run(api: Rig) -> None:
    """`month-end` is for this month: next month it must run again, and not be told of the last one."""
    path = f"/jobs/{api.job()['id']}:trigger"
    for body in ({"params": {"month": 10}, "idempotency_key": "end"}, {"idempotency_key": "end"}):
        first, again = api.call("POST", path, body).json(), api.call("POST", path, body).json()
        assert first == again
        expire_keys(api)
    runs = api.call("GET", path.replace(":trigger", "/executions")).json()["items"]
    assert len(runs) == 2 and runs[0]["id"] == first["id"]


def test_a_resume_by_key_is_one_and_its_answer_stays(api: Rig) -> None:
    job = api.job(every="1h", cron=None)
    path = f"/jobs/{job['id']}"
    paused_for_hours(api, job["id"])
    body = {"missed": "all", "idempotency_key": "go on"}
    answers = [api.call("POST", f"{path}:resume", body).json() for _ in range(2)]
    assert [one["backfilled"] for one in answers] == [3, 3]
    # Somebody paused it meanwhile: the repeat of an answer that was lost must not undo that.
    api.call("POST", f"{path}:pause")
    late = api.call("POST", f"{path}:resume", body).json()
    assert (late["state"], late["backfilled"]) == ("paused", 3)
    other = api.call("POST", f"{path}:resume", body | {"missed": "one"})
    assert (other.status_code, other.json()["error"]["field"]) == (409, "idempotency_key")
    assert api.call("POST", f"{path}:resume", {"idempotency_key": "again"}).json()["state"] == "active"
    with psycopg.connect(api.dsn) as conn:
        work = conn.execute("SELECT count FROM shardwheel.work_rows WHERE job_id = %s", [job["id"]])
        assert work.fetchall() == [(3,)]


def test_a_backfill_by_key_is_one_and_another_span_is_refused(api: Rig) -> None:
    job = api.job(cron="0 * * * *")
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z", "idempotency_key": "fill"}
    answers = [api.call("POST", f"/jobs/{job['id']}:backfill", span).json() for _ in range(2)]
    assert answers == [{"id": job["id"], "job_id": job["id"], "count": 6}] * 2
    other = api.call("POST", f"/jobs/{job['id']}:backfill", span | {"to": "2026-01-01T06:00:00Z"})
    assert (other.status_code, other.json()["error"]["field"]) == (409, "idempotency_key")
    assert len(audit(api, object_id=job["id"], action="job.backfill")) == 1


def test_a_backfill_counts_the_times_of_its_span(api: Rig) -> None:
    path = f"/jobs/{api.job(cron='0 * * * *')['id']}:backfill"
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z"}
    answer = api.call("POST", path, span)
    assert (answer.status_code, answer.json()["count"]) == (202, 6)
    for wrong, field in (
        ({"from": span["to"], "to": span["from"]}, "to"),
        ({"from": "x", "to": "y"}, "from"),
    ):
        refused = api.call("POST", path, wrong)
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, field)


def test_a_backfill_has_an_end(api: Rig) -> None:
    """One request is not to queue what nobody could run in years."""
    job = api.job(every="10ms", cron=None)
    path = f"/jobs/{job['id']}"
    paused_for_hours(api, job["id"])
    for missed, status in (("all", 400), ("one", 200)):
        answer = api.call("POST", f"{path}:resume", {"missed": missed})
        assert answer.status_code == status, answer.text
    span = {"from": "2025-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    refused = api.call("POST", f"{path}:backfill", span)
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "from")
    assert "1,000,000" in refused.json()["error"]["message"]
    with psycopg.connect(api.dsn) as conn:
        work = conn.execute("SELECT count FROM shardwheel.work_rows WHERE job_id = %s", [job["id"]])
        assert work.fetchall() == [(1,)]


def test_executions_are_read_with_attempts_and_cancelled(api: Rig) -> None:
    execution_id = api.execution()
    read = api.call("GET", f"/executions/{execution_id}").json()
    msgspec.convert(read, views.ExecutionWithAttempts)
    assert (read["state"], read["attempts"]) == ("queued", [])
    api.poked.clear()
    assert api.call("POST", f"/executions/{execution_id}:cancel").json() == {"outcome": "cancelled"}
    assert api.poked == [partition_of_id(id_of(execution_id))]
    assert api.call("POST", f"/executions/{execution_id}:cancel").json() == {"outcome": "already_done"}
    assert [entry["action"] for entry in audit(api, object_id=execution_id)] == ["execution.cancel"]
    assert api.call("GET", f"/executions/{uuid.uuid4()}").status_code == 404


def test_an_execution_is_explained(api: Rig) -> None:
    answer = api.call("GET", f"/executions/{api.execution()}/explain")
    assert answer.status_code == 200, answer.text
    found = msgspec.convert(answer.json(), views.ExplanationView)
    assert (found.kind, found.state) == ("execution", "queued") and found.sentence
    assert api.call("GET", f"/executions/{uuid.uuid4()}/explain").status_code == 404


def test_the_log_of_an_execution(api: Rig) -> None:
    execution_id = api.execution()
    with psycopg.connect(api.dsn) as conn:
        conn.execute(
            """INSERT INTO shardwheel.execution_logs
                      (execution_id, attempt, first_line, tenant_id, partition, count, bytes, lines)
               SELECT %s, attempt, 1, 'acme', 7, 1, 9, '[[1795003200000, "info", "one line"]]'
                 FROM generate_series(1, 2) AS attempt""",
            [execution_id],
        )
    lines = api.call("GET", f"/executions/{execution_id}/logs").json()["items"]
    msgspec.convert(lines, list[views.LogLine])
    assert [(line["attempt"], line["text"]) for line in lines] == [(1, "one line"), (2, "one line")]
    second = api.call("GET", f"/executions/{execution_id}/logs?attempt=2").json()["items"]
    assert second == lines[1:]


def test_dead_letters_are_redriven_and_discarded(api: Rig) -> None:
    first, second, third = (api.letter("letters") for _ in range(3))
    third_run = api.call("GET", f"/dead-letters/{third}", tenant="letters").json()["execution_id"]
    redriven = api.call("POST", f"/dead-letters/{first}:redrive", tenant="letters")
    assert redriven.status_code == 202
    assert api.call("POST", f"/dead-letters/{first}:redrive", tenant="letters").json() == redriven.json()
    assert (
        api.call("POST", f"/dead-letters/{second}:discard", tenant="letters").json()["state"] == "discarded"
    )
    unlimited = api.call("POST", "/dead-letters:discard", {}, tenant="letters")
    assert (unlimited.status_code, unlimited.json()["error"]["field"]) == (400, "all")
    listed = api.call("GET", "/dead-letters", tenant="letters").json()["items"]
    assert [item["id"] for item in listed] == [third]
    api.poked.clear()
    rest = api.call("POST", "/dead-letters:redrive", {"all": True}, tenant="letters")
    assert partition_of_id(id_of(third_run)) in api.poked
    assert rest.json() == {"done": 1, "refused": {}, "count": None, "next_cursor": None}
    assert api.call("GET", f"/dead-letters/{third}", tenant="letters").json()["state"] == "redriven"


def test_a_task_type_is_paused_and_resumed(api: Rig) -> None:
    api.job("typed", task="email:send")
    for _ in range(2):
        paused = api.call("POST", "/tasks/email:send:pause", tenant="typed")
        assert (paused.status_code, paused.json()["paused"]) == (200, True)
    assert [task["paused"] for task in api.call("GET", "/tasks", tenant="typed").json()["items"]] == [True]
    resumed = api.call("POST", "/tasks/email:send:resume", {}, tenant="typed").json()
    msgspec.convert(resumed, views.TaskView)
    assert resumed["paused"] is False
    entry = audit(api, "typed", action="task.resume")[0]
    assert [entry["details"][when]["paused"] for when in ("before", "after")] == [True, False]
    assert api.call("POST", f"/tasks/{'x' * 201}:pause", tenant="typed").status_code == 400


def test_without_etcd_the_shards_are_unknown_and_all_else_works(api: Rig) -> None:
    answer = api.call("GET", "/shards")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert api.call("GET", "/jobs").status_code == 200


def test_probes_and_metrics_want_no_token(api: Rig) -> None:
    assert api.client.get("/healthz").json()["status"] == "ok"
    assert api.client.get("/readyz").json() == {"status": "ready"}
    assert 'shardwheel_api_request_seconds_count{route="POST /jobs"}' in api.client.get("/metrics").text
    assert api.client.get("/api/v1/openapi.json").json()["openapi"] == "3.1.0"
