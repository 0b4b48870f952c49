"""A cancel's answer is what became of the run, whoever comes at the same moment: on the real PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from shardwheel.execution import Claimed
from shardwheel.ids import fire_id, id_of, partition_of_id, scheduled_ms_of, text_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind
from tests.integration.api.rig import Rig
from tests.integration.store.gate import claim_on, result_of

pytestmark = pytest.mark.servers
PATIENCE_S = 60.0
Connection = psycopg.Connection[Any]


def message(execution_id: str, job_id: str, schedule_no: int = 0) -> Fire:
    """As its owner publishes it."""
    run_id = id_of(execution_id)
    at_ms = scheduled_ms_of(run_id)
    given = (run_id, id_of(job_id), partition_of_id(run_id), schedule_no, at_ms, at_ms, 1)
    return Fire(FORMAT_VERSION, FireKind.FIRE, *given)


@contextmanager
def waiting(api: Rig, conn: Connection, ask: Callable[[], str]) -> Iterator[Future[str]]:
    """Enter the block once the API waits for a lock that this connection holds."""
    with ThreadPoolExecutor(1) as thread, psycopg.connect(api.dsn, autocommit=True) as observer:
        asked = thread.submit(ask)
        give_up_at_s = time.monotonic() + PATIENCE_S
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while observer.execute(blocked, [conn.info.backend_pid]).fetchone() == (0,):
            assert not asked.done() and time.monotonic() < give_up_at_s
            time.sleep(0.01)
        yield asked


def cancel(api: Rig, execution_id: str, job_id: str | None = None) -> str:
    answer = api.call("POST", f"/executions/{execution_id}:cancel", {"job_id": job_id} if job_id else {})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["outcome"])


def triggered(api: Rig) -> tuple[str, str]:
    """An execution that waits, and its job."""
    job_id = str(api.job()["id"])
    return str(api.call("POST", f"/jobs/{job_id}:trigger").json()["execution_id"]), job_id


def state(api: Rig, execution_id: str) -> str:
    return str(api.call("GET", f"/executions/{execution_id}").json()["state"])


@pytest.mark.parametrize(("is_kept", "outcome"), [(True, "already_running"), (False, "cancelled")])
def test_cancel_against_a_claim(api: Rig, is_kept: bool, outcome: str) -> None:
    execution_id, job_id = triggered(api)
    with psycopg.connect(api.dsn) as worker:
        (claimed,) = claim_on(worker, message(execution_id, job_id)).claimed
        with waiting(api, worker, lambda: cancel(api, execution_id)) as asked:
            worker.commit() if is_kept else worker.rollback()
        assert asked.result(PATIENCE_S) == outcome
        assert text_of(claimed.execution_id) == execution_id
        assert state(api, execution_id) == ("running" if is_kept else "cancelled")
        # What was cancelled is never claimed.
        assert claim_on(worker, message(execution_id, job_id)).claimed == []


def test_cancel_against_the_result(api: Rig) -> None:
    execution_id, job_id = triggered(api)
    with psycopg.connect(api.dsn) as worker:
        (claimed,) = claim_on(worker, message(execution_id, job_id)).claimed
        worker.commit()
        settle(worker, [result_of(claimed)])
        with waiting(api, worker, lambda: cancel(api, execution_id)) as asked:
            worker.commit()
        assert asked.result(PATIENCE_S) == "already_done"
    assert state(api, execution_id) == "succeeded"


@pytest.mark.parametrize(("is_kept", "outcome"), [(True, "already_running"), (False, "cancelled")])
def test_cancel_ahead_against_the_claim_that_makes_the_row(api: Rig, is_kept: bool, outcome: str) -> None:
    job = api.job(cron=None, delay="1h")
    job_id, partition = id_of(job["id"]), int(job["partition"])
    with psycopg.connect(api.dsn) as worker:
        found = worker.execute(
            """SELECT schedule_no, (extract(epoch FROM anchor_at) * 1000)::bigint FROM shardwheel.jobs
                WHERE job_id = %s""",
            [Uuid(job_id)],
        ).fetchone()
        assert found is not None
        execution_id = text_of(fire_id(job_id, partition, found[1]))
        claimed = claim_on(worker, message(execution_id, job["id"], found[0])).claimed
        assert [one.state for one in rows(worker, execution_id)] == ["running"] and len(claimed) == 1
        with waiting(api, worker, lambda: cancel(api, execution_id, job["id"])) as asked:
            worker.commit() if is_kept else worker.rollback()
        assert asked.result(PATIENCE_S) == outcome
        assert claim_on(worker, message(execution_id, job["id"], found[0])).claimed == []


def rows(conn: Connection, execution_id: str) -> list[Any]:
    cursor = conn.cursor(row_factory=psycopg.rows.namedtuple_row)
    return cursor.execute(
        "SELECT state FROM shardwheel.executions WHERE execution_id = %s", [execution_id]
    ).fetchall()


def test_many_cancels_against_a_worker_each_answer_is_true(api: Rig) -> None:
    """Nobody is told `cancelled` of what ran, nor `already_running` of what never did."""
    runs = dict(triggered(api) for _ in range(40))
    claimed: list[Claimed] = []

    def work() -> None:
        with psycopg.connect(api.dsn) as worker:
            for execution_id, job_id in runs.items():
                claimed.extend(claim_on(worker, message(execution_id, job_id)).claimed)
                worker.commit()

    with ThreadPoolExecutor(5) as threads:
        working = threads.submit(work)
        # From the other end, so that they meet.
        wanted = list(reversed(runs))
        outcomes = dict(zip(wanted, threads.map(lambda one: cancel(api, one), wanted), strict=True))
        working.result(PATIENCE_S)
    ran = {text_of(one.execution_id) for one in claimed}
    assert set(outcomes.values()) <= {"cancelled", "already_running"}
    assert ran == {execution_id for execution_id, outcome in outcomes.items() if outcome == "already_running"}
