"""A request that was done and whose answer was lost: the clients send it again, and it is done once.

And what is worth a connection is worth keeping one: many calls, one connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from shardwheel.errors import UnavailableError
from tests.clients import KINDS, Driver, driving
from tests.integration.api.rig import Rig, token
from tests.proxy import Proxy

pytestmark = pytest.mark.servers
YEARS_AHEAD = "2199-01-01T00:00:00Z"
PAST = ("2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z")
ETL: dict[str, Any] = {"name": "etl", "tasks": [{"key": "a", "task": "work"}]}


@pytest.fixture
def proxy(api: Rig) -> Iterator[Proxy]:
    where = urlsplit(str(api.client.base_url))
    with Proxy(str(where.hostname), int(where.port or 0)) as proxy:
        yield proxy


@pytest.fixture(params=KINDS)
def client(proxy: Proxy, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """Each test, and each kind, is a tenant of its own."""
    with driving(
        request.param, f"http://127.0.0.1:{proxy.port}", token=token(request.node.name[:60])
    ) as driver:
        yield driver


def test_one_job_is_stored(proxy: Proxy, client: Driver) -> None:
    proxy.lose_answer_to(b"POST /api/v1/jobs ")
    once = client.enqueue("report", run_at=YEARS_AHEAD)
    proxy.lose_answer_to(b"POST /api/v1/jobs ")
    daily = client.create_job("report", cron="0 9 * * *")
    assert [job.id for job in client.jobs()] == [once.id, daily.id]
    assert proxy.losses == 2


def test_one_batch_is_stored(proxy: Proxy, client: Driver) -> None:
    proxy.lose_answer_to(b"POST /api/v1/jobs:batch ")
    made = client.create_jobs([{"task": "many", "run_at": YEARS_AHEAD} for _ in range(30)])
    assert sorted(job.id for job in made) == [job.id for job in client.jobs()] and len(made) == 30
    assert proxy.losses == 1


def test_one_run_is_made(proxy: Proxy, client: Driver) -> None:
    job = client.create_job("work", cron="0 9 * * *")
    proxy.lose_answer_to(b":trigger ")
    run = client.trigger_job(job.id, {"n": 1})
    assert [one.id for one in client.executions(job.id)] == [run.execution_id]
    proxy.lose_answer_to(b":backfill ")
    assert client.backfill_job(job.id, *PAST).count == client.backfill_job(job.id, *PAST).count
    dag = client.create_dag(ETL)
    proxy.lose_answer_to(b":trigger ")
    begun = client.trigger_dag(dag.id)
    assert [one.job_id for one in client.executions(origin="trigger")].count(dag.id) == 1
    assert client.get_dag_run(dag.id, begun.id).id == begun.id
    assert proxy.losses == 3


def test_one_dag_is_stored_and_deleting_it_twice_is_deleting_it(proxy: Proxy, client: Driver) -> None:
    proxy.lose_answer_to(b"POST /api/v1/dags ")
    dag = client.create_dag(ETL)
    assert [one.id for one in client.dags()] == [dag.id]
    proxy.lose_answer_to(b"DELETE /api/v1/dags/")
    assert client.delete_dag(dag.id).state == "deleted"
    assert proxy.losses == 2


def test_what_twice_is_not_once_says_that_it_may_be_done(proxy: Proxy, client: Driver) -> None:
    job = client.create_job("work", cron="0 9 * * *")
    proxy.lose_answer_to(b"PATCH /api/v1/jobs/")
    with pytest.raises(UnavailableError, match="may have been done: look") as caught:
        client.update_job(job.id, timeout_s=5)
    assert caught.value.maybe_applied and client.get_job(job.id).timeout_s == 5


def test_a_request_that_never_arrived_is_sent_again(proxy: Proxy, client: Driver) -> None:
    proxy.lose_request(b"POST /api/v1/jobs ")
    job = client.enqueue("report", run_at=YEARS_AHEAD)
    assert [one.id for one in client.jobs()] == [job.id]


def test_many_calls_go_over_one_connection(proxy: Proxy, client: Driver) -> None:
    made = client.create_jobs([{"task": "many", "run_at": YEARS_AHEAD} for _ in range(210)])
    assert len(client.jobs()) == 210
    for job in made[:10]:
        assert client.get_job(job.id) == job
    assert proxy.accepted == 1
    # One that was closed meanwhile, as by a proxy that waits for nobody, is opened anew.
    proxy.cut_all()
    assert client.get_job(made[0].id) == made[0] and proxy.accepted == 2
