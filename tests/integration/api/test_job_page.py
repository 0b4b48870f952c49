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
