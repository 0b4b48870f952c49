"""The public surface, in the words of the contract that the project was given: nothing of it is missing."""

from __future__ import annotations

import re

import msgspec
import pytest

from shardwheel.api import bodies, dag_bodies, views
from shardwheel.api.app import ROUTES
from shardwheel.api.rules import RULES
from shardwheel.execution import ExecutionState
from shardwheel.job import JobState
from shardwheel.store.dag_reading import RUN_STATES

CONTRACT = """
jobs: `POST /jobs`, `POST /jobs:batch` (≤ 1,000, all or none), `GET /jobs`, `GET|PATCH|DELETE /jobs/{id}`,
`POST /jobs/{id}:pause | :resume | :trigger | :backfill`, `GET /jobs/{id}/next?n=`,
`GET /jobs/{id}/executions`, `PUT|DELETE /jobs/{id}/dependencies/{parent_id}`
executions: `GET /executions`, `GET /executions/{id}` (with its attempts), `POST /executions/{id}:cancel`,
`GET /executions/{id}/logs`, `GET /executions/{id}/explain`
tasks: `GET /tasks`, `POST /tasks/{name}:pause | :resume`
dags: `POST /dags`, `GET /dags`, `GET|PATCH|DELETE /dags/{id}`, `POST /dags/{id}:trigger | :pause | :resume`,
`GET /dags/{id}/runs`, `GET /dags/{id}/runs/{run}`, `POST /dags/{id}/runs/{run}:rerun`,
`POST /dags/{id}/runs/{run}/tasks/{task}:force-complete | :skip`
dead letters: `GET /dead-letters`, `GET /dead-letters/{id}`, `POST /dead-letters/{id}:redrive | :discard`,
`POST /dead-letters:redrive | :discard` (by filter)
cluster: `GET /shards`, `GET /partitions`, `GET /wheel?from=&to=` (entries per time bucket and shard),
`POST /rebalance`, `POST /shards/{id}:drain`; `GET /audit`; `GET /alerts`, `POST /alerts/{id}:silence`
`GET /events` (server-sent), `GET /healthz`, `GET /readyz`; `GET /metrics` on every service (Prometheus)
"""


def routes_in(text: str) -> set[str]:
    """`GET|PATCH /jobs/{id}` and `POST /jobs/{id}:pause | :resume` are two routes each."""
    found = set()
    for methods, path in re.findall(r"`([A-Z|]+) (/[^`?]+)[^`]*`", text):
        first, *verbs = path.split(" | ")
        stem = first.rpartition(":")[0] if ":" in first else first
        for method in methods.split("|"):
            found |= {f"{method} {one}" for one in (first, *(stem + verb for verb in verbs))}
    return found


def test_no_route_of_the_contract_is_missing() -> None:
    wanted = routes_in(CONTRACT)
    assert len(wanted) == 53 and "POST /dags/{id}/runs/{run}/tasks/{task}:skip" in wanted
    assert sorted(wanted - set(RULES)) == []


JOB = """task name params cron every run_at delay parents time_zone dst_gap dst_fold exclude start_at end_at
max_runs priority pool timeout_s max_retries backoff misfire misfire_grace_s catchup_window overlap
not_after_s jitter_s idempotency_key tags callback_url"""
EXECUTION = """id job_id state reason origin scheduled_at attempt failures started_at ended_at duration_ms
progress output attempts"""
DAG = "name cron every run_at policy sla_s tasks"
TASK_OF_DAG = "key task params depends_on fan_out priority pool timeout_s max_retries backoff not_after_s"
FILTERS = {"limit", "cursor", "state", "task", "tag", "q", "from", "to"}


@pytest.mark.parametrize(
    ("kind", "words", "is_all"),
    [
        (bodies.JobBody, JOB, True),
        (views.ExecutionWithAttempts, EXECUTION, False),
        (dag_bodies.DagBody, DAG, False),
        (dag_bodies.DagTaskBody, TASK_OF_DAG, True),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_fields_are_named_as_in_the_contract(kind: type[msgspec.Struct], words: str, is_all: bool) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    assert set(words.split()) - known == set()
    assert not is_all or known == set(words.split())


@pytest.mark.parametrize("path", ["/jobs", "/executions", "/dags", "/dead-letters"])
def test_lists_are_filtered_as_in_the_contract(path: str) -> None:
    (route,) = [route for route in ROUTES if route.name == f"GET {path}"]
    assert {word.name for word in route.query} >= FILTERS


def test_every_parameter_of_the_contract_is_there() -> None:
    by_name = {route.name: {word.name for word in route.query} for route in ROUTES}
    assert "n" in by_name["GET /jobs/{id}/next"] and by_name["GET /wheel"] >= {"from", "to"}
    for name, route in ((route.name, route) for route in ROUTES):
        if route.method == "GET" and "items" in route.example and name not in COUNTED:
            assert by_name[name] >= {"limit", "cursor"}, name


# Lists that say how many in another way: a number of times, a number of buckets.
COUNTED = {"GET /jobs/{id}/next", "GET /wheel"}


def test_states_are_those_of_the_contract() -> None:
    assert set(JobState) == {"active", "paused", "completed", "deleted"}
    runs = "queued held running retry_wait succeeded dead cancelled skipped force_completed"
    assert set(ExecutionState) == set(runs.split())
    assert set(RUN_STATES) == {"running", "succeeded", "failed", "partial", "cancelled"}
