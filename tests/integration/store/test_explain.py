"""The facts behind `shardctl explain`, gathered from a real PostgreSQL, and what is then said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from shardwheel.errors import NotFoundError
from shardwheel.explaining import explain
from shardwheel.explanation import Explanation
from shardwheel.ids import fire_id, new_job_id, text_of
from shardwheel.limits import WorkerCard
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.explain import read_facts
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, get_job, pause_job, read_now_ms
from shardwheel.store.requests import backfill_job, trigger_job
from shardwheel.store.task_types import limit_task, pause_task
from shardwheel.store.workers import announce_worker
from shardwheel.wire import Outcome
from tests.integration.store.gate import NOON_MS, Gate, result_of

pytestmark = pytest.mark.servers

TENANT = "t"


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    gate = Gate(migrated_database)
    gate.update(gate.job_id, schedule='{"every_ms":60000}', anchor_at="2026-01-01T00:00:00Z")
    yield gate
    gate.close()


def create(gate: Gate, age_ms: int = 0, **fields: Any) -> JobRow:
    """A job; one of some age has times that are past."""
    (job_id,) = create_jobs(gate.conn, TENANT, [parse_posting({"task": "work"} | fields)])
    if age_ms:
        with gate.conn.transaction():
            gate.conn.execute("SET LOCAL session_replication_role = replica")
            gate.conn.execute(
                """UPDATE shardwheel.jobs SET anchor_at = anchor_at - %(age)s, start_at = start_at - %(age)s,
                          effective_from = effective_from - %(age)s WHERE job_id = %(job)s""",
                {"age": timedelta(milliseconds=age_ms), "job": Uuid(job_id)},
            )
    return get_job(gate.conn, TENANT, job_id)


def anchor(job: JobRow) -> int:
    assert job.anchor_ms is not None
    return job.anchor_ms


def fired_through(gate: Gate, at_ms: int) -> None:
    gate.conn.execute("UPDATE shardwheel.partitions SET fired_through_ms = %s", [at_ms])


def said(gate: Gate, some_id: bytes) -> str:
    found = explain(read_facts(gate.conn, TENANT, some_id))
    return f"{found.state}:{found.reason}"


def test_a_job_says_when_its_next_time_comes_and_why_none_does(gate: Gate) -> None:
    job = create(gate, every="1h")
    facts = read_facts(gate.conn, TENANT, job.job_id)
    assert facts.job.next_ms == anchor(job) + 3_600_000 == facts.job.next_fire_ms
    assert (facts.job.previous_ms, facts.latest, said(gate, job.job_id)) == (None, None, "active:waits")
    pause_job(gate.conn, TENANT, job.job_id)
    assert said(gate, job.job_id) == "paused:paused"
    excluded = create(gate, cron="0 0 * * *", exclude=["2026-01-01"])
    assert read_facts(gate.conn, TENANT, excluded.job_id).job.excluded == []


def test_dates_that_are_passed_over_are_named(gate: Gate) -> None:
    ((today, tomorrow),) = gate.conn.execute(
        "SELECT d::date::text, (d + interval '1 day')::date::text"
        "  FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC') AS n (d)"
    )
    job = create(gate, cron="0 12 * * *", exclude=[today, tomorrow])
    assert read_facts(gate.conn, TENANT, job.job_id).job.excluded == [today, tomorrow]


def test_a_past_time_without_a_row_is_explained_by_its_job_and_by_its_id(gate: Gate) -> None:
    job = create(gate, age_ms=90_000, every="1m")
    due_ms = anchor(job) + 60_000
    execution = fire_id(job.job_id, job.partition, due_ms)
    assert said(gate, job.job_id) == said(gate, execution) == "not_fired:owner_behind"
    assert read_facts(gate.conn, TENANT, job.job_id).job.previous_ms == due_ms
    fired_through(gate, read_now_ms(gate.conn))
    assert said(gate, job.job_id) == said(gate, execution) == "not_fired:no_worker"
    announce_worker(gate.conn, WorkerCard("w", "short", ("other",), 1, ""))
    assert said(gate, job.job_id) == said(gate, execution) == "not_fired:unclaimed"
    assert said(gate, fire_id(job.job_id, job.partition, due_ms + 60_000)) == "not_fired:not_due"
    assert said(gate, fire_id(job.job_id, job.partition, due_ms + 1)) == "not_fired:no_such_time"
    assert said(gate, fire_id(job.job_id, job.partition, due_ms - 3_600_000)) == "not_fired:schedule_changed"
    facts = read_facts(gate.conn, TENANT, execution)
    assert explain(facts.owned_by(None)).reason == "no_owner"


def test_a_time_in_a_skip_range_or_a_backfill_is_explained_by_it(gate: Gate) -> None:
    job = create(gate, age_ms=600_000, every="1m")
    first_ms, last_ms = anchor(job) + 60_000, anchor(job) + 180_000
    gate.conn.execute(
        """INSERT INTO shardwheel.skip_ranges (job_id, first_at, last_at, tenant_id, partition, count, reason)
           VALUES (%s, shardwheel.at(%s), shardwheel.at(%s), 't', 7, 3, 'misfire')""",
        [Uuid(job.job_id), first_ms, last_ms],
    )
    assert said(gate, fire_id(job.job_id, job.partition, first_ms)) == "skipped:misfire"
    # It is to be filled: that comes after the skip.
    backfill_job(gate.conn, TENANT, job.job_id, new_job_id(0), first_ms, last_ms)
    assert said(gate, fire_id(job.job_id, job.partition, first_ms)) == "not_fired:to_be_expanded"


def test_rows_are_explained_by_their_state(gate: Gate) -> None:
    gate.update(gate.job_id, max_retries=1)
    (claimed,) = gate.claim(gate.fire()).claimed
    assert said(gate, claimed.execution_id) == "running:at_work"
    gate.settle(result_of(claimed, Outcome.FAILED))
    facts = read_facts(gate.conn, TENANT, claimed.execution_id)
    assert (explain(facts).state, facts.attempts[0].outcome) == ("retry_wait", "failed")
    gate.conn.execute("UPDATE shardwheel.executions SET state = 'queued', due_at = now() - interval '1 s'")
    (claimed,) = gate.claim(gate.fire(attempt=2)).claimed
    gate.settle(result_of(claimed, Outcome.FATAL))
    facts = read_facts(gate.conn, TENANT, claimed.execution_id)
    assert facts.letter is not None and facts.letter.state == "open"
    assert said(gate, claimed.execution_id) == "dead:fatal"
    latest = read_facts(gate.conn, TENANT, gate.job_id).latest
    assert latest is not None and latest.execution_id == claimed.execution_id


def test_a_trigger_waits_for_the_owner(gate: Gate) -> None:
    job = create(gate, every="1h")
    execution = trigger_job(gate.conn, TENANT, job.job_id, new_job_id(0))
    fired_through(gate, read_now_ms(gate.conn) - 60_000)
    assert said(gate, execution) == "queued:owner_behind"


def held(gate: Gate, **claimant: Any) -> Explanation:
    """What is said of a fire that is claimed now."""
    fire = gate.fire()
    reply = gate.claim(fire, **claimant)
    assert sum(reply.recorded.values()) == 1
    return explain(read_facts(gate.conn, TENANT, fire.execution_id))


def test_a_paused_task_type_says_who_paused_it(gate: Gate) -> None:
    with gate.conn.transaction():
        pause_task(gate.conn, TENANT, "work", "ada")
    found = held(gate)
    assert (found.reason, found.remedy) == ("task_paused", "`shardctl task resume work`.")
    assert "paused by ada at 20" in found.sentence


def test_limits_say_how_much_they_allow(gate: Gate) -> None:
    with gate.conn.transaction():
        limit_task(gate.conn, TENANT, "work", max_running=1)
    gate.claim(gate.fire(NOON_MS - 1))
    found = held(gate)
    assert found.reason == "concurrency" and "at most 1 run at once, and 1 are taken" in found.sentence


def test_a_rate_says_what_it_is(gate: Gate) -> None:
    with gate.conn.transaction():
        limit_task(gate.conn, TENANT, "work", rate="1/h")
    gate.claim(gate.fire(NOON_MS - 1))
    found = held(gate)
    assert found.reason == "rate_limit" and "may start 1 an hour" in found.sentence


def test_an_open_breaker_says_until_when(gate: Gate) -> None:
    with gate.conn.transaction():
        limit_task(gate.conn, TENANT, "work", breaker=True)
    gate.conn.execute(
        "INSERT INTO shardwheel.task_breakers (tenant_id, task, open_until)"
        " VALUES ('t', 'work', now() + interval '1 min')"
    )
    found = held(gate)
    assert found.reason == "breaker_open" and "is open until 20" in found.sentence


def test_an_unknown_handler_says_whether_somebody_has_it_now(gate: Gate) -> None:
    found = held(gate, tasks=frozenset({"other"}))
    assert found.reason == "handler_unknown" and "none now either" in found.sentence
    announce_worker(gate.conn, WorkerCard("w", "short", ("work",), 1, ""))
    facts = read_facts(gate.conn, TENANT, gate.fire().execution_id)
    assert "there is one now" in explain(facts).sentence


def test_an_overlap_names_the_run_that_has_the_slot(gate: Gate) -> None:
    gate.update(gate.job_id, overlap="queue")
    (first,) = gate.claim(gate.fire(NOON_MS - 1)).claimed
    found = held(gate)
    assert found.reason == "overlap"
    assert text_of(first.execution_id) in found.sentence and text_of(first.execution_id) in found.remedy


def test_a_schedule_that_can_not_be_read_here_is_a_reason_too(gate: Gate) -> None:
    gate.update(gate.job_id, schedule='{"cron":"0 0 * * *","time_zone":"Moon/Tranquility"}')
    assert said(gate, gate.job_id) == "active:unreadable"
    assert said(gate, fire_id(gate.job_id, 7, NOON_MS)) == "not_fired:unreadable"


def test_what_is_unknown_or_anothers_is_not_found(gate: Gate) -> None:
    job = create(gate, every="1h")
    for tenant, some_id in ((TENANT, bytes(16)), (TENANT, b"\xff" * 16), ("rival", job.job_id)):
        with pytest.raises(NotFoundError, match="no execution and no job"):
            read_facts(gate.conn, tenant, some_id)
    execution = trigger_job(gate.conn, TENANT, job.job_id, new_job_id(0))
    for some_id in (execution, fire_id(job.job_id, job.partition, job.effective_from_ms)):
        with pytest.raises(NotFoundError):
            read_facts(gate.conn, "rival", some_id)


def test_the_api_may_ask_and_it_reads_only(gate: Gate) -> None:
    """As the API does it: role and tenant hold for one transaction."""
    job = create(gate, age_ms=90_000, every="1m")
    execution = trigger_job(gate.conn, TENANT, job.job_id, new_job_id(0))
    with psycopg.connect(gate.dsn) as conn:
        conn.read_only = True
        conn.execute(
            "SELECT set_config('role', 'shardwheel_api', true), set_config('shardwheel.tenant', 't', true)"
        )
        assert read_facts(conn, TENANT, job.job_id).job.job_id == job.job_id
        assert read_facts(conn, TENANT, execution).execution is not None
        assert read_facts(conn, TENANT, fire_id(job.job_id, job.partition, anchor(job))).execution is None
