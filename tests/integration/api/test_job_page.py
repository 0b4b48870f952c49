"""A job's page: what comes, what ran, what was skipped and why; and no more than was asked for."""

from __future__ import annotations

import psycopg
import pytest

from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers


def test_a_full_page_has_what_comes_and_what_was(api: Rig) -> None:
    job = api.job("page", cron="0 9 * * *")["id"]
    ran = api.call("POST", f"/jobs/{job}:trigger", tenant="page").json()["execution_id"]
    with psycopg.connect(api.dsn) as conn:
        conn.execute(
            """INSERT INTO shardwheel.skip_ranges
                      (job_id, first_at, last_at, tenant_id, partition, count, reason)
               SELECT job_id, '2026-01-01T09:00Z', '2026-01-03T09:00Z', tenant_id, partition, 3, 'misfire'
                 FROM shardwheel.jobs WHERE job_id = %s""",
            [job],
        )
    page = api.call("GET", f"/jobs/{job}?full=true", tenant="page", role="viewer").json()
    assert len(page["next_times"]) == 10 and page["next_times"][0] == page["next_at"]
    assert [execution["id"] for execution in page["executions"]] == [ran]
    assert page["skips"] == [
        {
            "from": "2026-01-01T09:00:00.000Z",
            "to": "2026-01-03T09:00:00.000Z",
            "count": 3,
            "reason": "misfire",
        }
    ]
    assert (page["max_retries"], page["overlap"], page["misfire"]) == (3, "allow", "fire_last")


def test_a_single_skipped_time_is_there_with_its_reason(api: Rig) -> None:
    execution = api.execution("skips")
    with psycopg.connect(api.dsn) as conn:
        conn.execute(
            "UPDATE shardwheel.executions SET state = 'skipped', reason = 'overlap' WHERE execution_id = %s",
            [execution],
        )
    read = api.call("GET", f"/executions/{execution}", tenant="skips").json()
    (skip,) = api.call("GET", f"/jobs/{read['job_id']}?full=true", tenant="skips").json()["skips"]
    assert (skip["from"], skip["count"], skip["reason"]) == (read["scheduled_at"], 1, "overlap")


def test_what_was_not_asked_for_is_not_there(api: Rig) -> None:
    job = api.job("plain")["id"]
    assert "executions" not in api.call("GET", f"/jobs/{job}", tenant="plain").json()
    refused = api.call("GET", f"/jobs/{job}?full=yes", tenant="plain")
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "full")


def test_a_paused_job_has_no_coming_times(api: Rig) -> None:
    job = api.job("paused page")["id"]
    api.call("POST", f"/jobs/{job}:pause", tenant="paused page")
    assert api.call("GET", f"/jobs/{job}?full=true", tenant="paused page").json()["next_times"] == []


def test_a_job_is_explained_by_its_own_id_only(api: Rig) -> None:
    job = api.job("explains")
    found = api.call("GET", f"/jobs/{job['id']}/explain", tenant="explains").json()
    assert (found["kind"], found["reason"]) == ("job", "waits")
    execution = api.execution("explains")
    assert api.call("GET", f"/jobs/{execution}/explain", tenant="explains").status_code == 404


def test_the_coming_times_come_with_their_jitter(api: Rig) -> None:
    job = api.job("jitters", jitter_s=60)
    found = api.call("GET", f"/jobs/{job['id']}/next?n=3", tenant="jitters").json()
    assert len(found["items"]) == len(found["fires_at"]) == 3
    assert all(time <= fires for time, fires in zip(found["items"], found["fires_at"], strict=True))


def test_executions_of_one_job_are_listed(api: Rig) -> None:
    wanted, _ = api.execution("lists"), api.execution("lists")
    job_id = api.call("GET", f"/executions/{wanted}", tenant="lists").json()["job_id"]
    found = api.call("GET", f"/executions?job_id={job_id}", tenant="lists").json()["items"]
    assert [one["id"] for one in found] == [wanted]


def test_a_task_type_is_limited_on_record(api: Rig) -> None:
    api.job("limits")
    limited = api.call("POST", "/tasks/work:limit", {"max_running": 2, "rate": "60/min"}, tenant="limits")
    assert (limited.json()["max_running"], limited.json()["rate"]) == (2, "60/min")
    again = api.call("POST", "/tasks/work:limit", {"rate": "none"}, tenant="limits").json()
    assert (again["max_running"], again["rate"]) == (2, None)
    assert api.call("POST", "/tasks/work:limit", {"rate": "often"}, tenant="limits").status_code == 400
    entry = api.call("GET", "/audit?action=task.limit", tenant="limits").json()["items"][-1]
    assert entry["details"]["after"]["max_running"] == 2


def test_dead_letters_are_counted_and_dealt_with_page_by_page(api: Rig) -> None:
    for _ in range(3):
        api.letter("deals")

    def deal(**more: object) -> dict[str, object]:
        answer: dict[str, object] = api.call(
            "POST", "/dead-letters:discard", {"all": True, **more}, tenant="deals"
        ).json()
        return answer

    assert deal(dry_run=True)["count"] == 3
    first = deal(limit=2)
    assert first["done"] == 2 and first["next_cursor"]
    assert deal(limit=2, cursor=first["next_cursor"]) == {
        "done": 1, "refused": {}, "next_cursor": None, "count": None
    }  # fmt: skip
    every = api.call("GET", "/dead-letters?state=all", tenant="deals").json()["items"]
    assert {one["state"] for one in every} == {"discarded"} and len(every) == 3
