"""The clients on the real API: every call, plainly, under trio and under asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from shardwheel.client.answers import Job
from shardwheel.errors import (
    BadTokenError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    NotOverError,
    TooLargeError,
    UsageError,
)
from shardwheel.ids import fire_id, id_of, text_of
from tests.clients import KINDS, Driver, driving
from tests.integration.api.cluster import FIRST
from tests.integration.api.rig import Rig, token

pytestmark = pytest.mark.servers
NOBODY = "019a9e5c-7e1b-7c3a-8f21-0c9d3b7a5e10"


@pytest.fixture(params=KINDS)
def client(api: Rig, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """Each kind is a tenant of its own."""
    with driving(request.param, str(api.client.base_url), token=token(request.param)) as driver:
        yield driver


def test_a_job_from_its_creation_to_its_end(client: Driver) -> None:
    job: Job = client.create_job(
        "email.send", {"to": "a@b.c"}, cron="0 9 * * 1-5", time_zone="Europe/Berlin", tags=("billing",)
    )
    assert (job.state, job.params, job.tags, job.execution_id) == (
        "active",
        {"to": "a@b.c"},
        ("billing",),
        None,
    )
    times = client.next_times(job.id, 3)
    assert times[0] == job.next_at and times == sorted(times) and times[0].tzinfo is not None
    assert client.get_job(job.id) == job
    assert client.update_job(job.id, tags=["urgent"]).tags == ("urgent",)
    assert client.pause_job(job.id).state == "paused" == client.pause_job(job.id).state
    assert client.resume_job(job.id, missed="all").state == "active"
    now = datetime.now(UTC)
    assert client.backfill_job(job.id, now - timedelta(days=7), now).count == 5
    triggered = client.trigger_job(job.id, {"to": "d@e.f"})
    run = client.get_execution(triggered.execution_id)
    assert (run.state, run.origin, run.is_over, run.attempts) == ("queued", "trigger", False, ())
    assert [one.id for one in client.executions(job.id)] == [run.id]
    assert client.explain(run.id).kind == "execution"
    assert list(client.logs(run.id)) == []
    assert client.cancel(run.id) == "cancelled" and client.cancel(run.id) == "already_done"
    assert client.wait(run.id, timeout=30).state == "cancelled"
    assert client.delete_job(job.id).state == "deleted" == client.delete_job(job.id).state


def test_an_enqueued_jobs_run_is_known_before_it_runs(client: Driver) -> None:
    job = client.enqueue("report.build", {"month": "2026-10"}, delay=timedelta(hours=1))
    run_at_ms = round(job.run_at.timestamp() * 1000)
    assert job.execution_id == text_of(fire_id(id_of(job.id), job.partition, run_at_ms))
    with pytest.raises(NotOverError, match="explain"):
        client.wait(job, timeout=0.1)
    assert client.cancel(job.execution_id, job_id=job.id) == "cancelled"
    assert client.wait(job, timeout=30).state == "cancelled"
    with pytest.raises(NotFoundError):
        client.wait(NOBODY, timeout=30)


def test_a_key_is_one_job_and_one_run(client: Driver) -> None:
    first = client.enqueue("report", delay=60, idempotency_key="one")
    assert client.enqueue("report", delay=60, idempotency_key="one") == first
    assert client.enqueue("report", delay=60).id != first.id
    with pytest.raises(ConflictError) as caught:
        client.enqueue("other", idempotency_key="one")
    assert caught.value.field == "idempotency_key"
    runs = {client.trigger_job(first.id, idempotency_key="now").execution_id for _ in range(2)}
    assert len(runs) == 1


def test_a_batch_is_stored_whole_or_not_at_all(client: Driver) -> None:
    made = client.create_jobs([{"task": "many", "run_at": "2199-01-01T00:00:00Z"} for _ in range(450)])
    with pytest.raises(UsageError) as caught:
        client.create_jobs([{"task": "many"}, {"task": "many", "cron": "nonsense"}])
    assert caught.value.field == "[1].cron"
    found = [job.id for job in client.jobs(task="many")]
    assert found == sorted(job.id for job in made)
    assert [job.id for job in client.jobs(task="many", limit=201)] == found[:201]
    assert client.jobs(task="many", limit=0) == []


def test_refusals_become_our_errors(api: Rig, client: Driver) -> None:
    with pytest.raises(UsageError, match=r"cron: .*;") as caught:
        client.create_job("work", cron="nonsense")
    assert caught.value.field == "cron"
    with pytest.raises(UsageError, match="use create_job"):
        client.enqueue("work", cron="0 9 * * *")
    with pytest.raises(NotFoundError):
        client.get_job(NOBODY)
    with pytest.raises(TooLargeError):
        client.create_job("work", {"x": "y" * 70_000})
    viewer = {"token": token("acme", "viewer")}
    for others, expected in (({"token": "nonsense"}, BadTokenError), (viewer, ForbiddenError)):
        with driving("blocking", str(api.client.base_url), **others) as other:
            with pytest.raises(expected):
                other.create_job("work")


def test_task_types_and_dead_letters(api: Rig, client: Driver, request: pytest.FixtureRequest) -> None:
    tenant = request.node.callspec.params["client"]
    first, second, third = (api.letter(tenant, task="mail") for _ in range(3))
    assert client.pause_task("mail").paused and not client.resume_task("mail").paused
    assert "mail" in [task.id for task in client.tasks()]
    assert {letter.id for letter in client.dead_letters(task="mail")} == {first, second, third}
    assert client.get_dead_letter(first).params == {}
    again = client.redrive(first)
    assert client.redrive(first) == again and again.execution_id
    assert client.discard(second) is None
    with pytest.raises(UsageError):
        client.redrive_all()
    assert client.discard_all(task="mail", class_="Nothing").done == 0
    assert client.redrive_all(task="mail").done == 1


def test_all_task_types_are_there_however_many_pages_they_fill(client: Driver) -> None:
    names = [f"type {number:03}" for number in range(230)]
    client.create_jobs([{"task": name, "delay": "1h"} for name in names])
    assert [task.id for task in client.tasks() if task.id.startswith("type ")] == names


def test_the_cluster(api: Rig, client: Driver, request: pytest.FixtureRequest) -> None:
    api.view = api.cluster.view()
    assert FIRST in [shard.id for shard in client.shards()]
    assert [partition.partition for partition in client.partitions()] == list(range(256))
    assert client.wheel(buckets=4).bucket_ms == 900_000
    assert client.drain(FIRST).state == "draining"
    assert client.undrain(FIRST).state == "active"
    assert client.rebalance().asked
    assert "cluster.rebalance" in [entry.action for entry in client.audit(limit=5)]
    alert_id = api.alert(request.node.name)
    assert alert_id in [alert.id for alert in client.alerts()]
    assert client.silence_alert(alert_id, for_=timedelta(hours=2)).silenced_until is not None


def test_dags_and_their_runs(client: Driver) -> None:
    extract = {"key": "extract", "task": "etl.extract"}
    load = {"key": "load", "task": "etl.load", "depends_on": ["extract"], "max_retries": 5}
    dag = client.create_dag({"name": "etl", "cron": "0 2 * * *", "tasks": [extract, load]})
    assert [(task.key, task.depends_on) for task in dag.tasks] == [("extract", ()), ("load", ("extract",))]
    assert client.get_dag(dag.id) == dag
    assert [one.id for one in client.dags(q="etl")] == [dag.id]
    changed = client.update_dag(dag.id, {"cron": None, "every": "1h", "tasks": [extract]})
    assert (changed.version, changed.cron, len(changed.tasks)) == (2, None, 1)
    assert client.pause_dag(dag.id).state == "paused" and client.resume_dag(dag.id).state == "active"
    first = client.trigger_dag(dag.id, idempotency_key="first")
    assert client.trigger_dag(dag.id, idempotency_key="first") == first
    assert client.get_dag_run(dag.id, first.id).origin == "trigger"
    with pytest.raises(NotOverError):
        client.wait_dag_run(dag.id, first.id, timeout=0.1)
    assert list(client.dag_runs(dag.id)) == []
    assert client.cancel_dag_run(dag.id, first.id).state == "cancelled"
    assert client.wait_dag_run(dag.id, first.id, timeout=30).is_over
    for hand in (client.force_complete, client.skip_task):
        with pytest.raises(ConflictError):
            hand(dag.id, first.id, "extract")
    with pytest.raises(ConflictError):
        client.rerun_dag_run(dag.id, first.id)
    assert client.delete_dag(dag.id).state == "deleted"
    with pytest.raises(UsageError, match="extract"):
        client.create_dag({"tasks": [extract | {"depends_on": ["extract"]}]})


def test_any_route_can_be_called_for_plain_values(client: Driver) -> None:
    job = client.request("POST", "/jobs", body={"task": "plain"})
    assert client.request("GET", "/jobs", query={"task": "plain", "limit": 1})["items"][0]["id"] == job["id"]
    assert "shardwheel_api_request_seconds" in client.request("GET", "/metrics")


def test_a_job_of_ones_own_transaction_is_answered_alike(api: Rig, client: Driver) -> None:
    with psycopg.connect(api.dsn, autocommit=True) as conn:
        posted: dict[str, Any] = {"delay": 60, "idempotency_key": "own", "tags": ["x"]}
        job = client.enqueue("own", {"n": 1}, conn=conn, **posted)
    assert api.call("GET", f"/jobs/{job.id}", tenant="default").json()["run_at"] == _shown(job.run_at)
    assert (job.params, job.tags, job.state) == ({"n": 1}, ("x",), "active")
    assert job.execution_id is not None


def _shown(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
