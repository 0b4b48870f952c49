"""Workers as processes: killed and frozen under many executions, asked to stop; what `ctx` leaves behind."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.store.job_row import JobRow
from shardwheel.store.notes import read_logs
from shardwheel.store.requests import cancel_execution
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Outcome, Result
from tests.integration.loop.rig import Loop
from tests.servers import hasty_kafka, started

pytestmark = pytest.mark.servers
MANY = 100


@pytest.fixture(scope="module")
def calm_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One for this file. What one test left there is of jobs that nobody knows."""
    with started(hasty_kafka(tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture
def loop(
    tmp_path: Path, migrated_database: str, etcd_server: EtcdServer, calm_kafka: KafkaServer
) -> Iterator[Loop]:
    rig = Loop(
        tmp_path,
        migrated_database,
        etcd_server.address,
        calm_kafka.bootstrap,
        f"loop-{uuid.uuid4().hex[:8]}",
        SECRET_default__mail="hunter22",
    )
    yield rig
    rig.close()


def start_many(loop: Loop, folder: Path) -> list[JobRow]:
    jobs = [loop.create("many", params={"folder": str(folder)}) for _ in range(MANY)]
    loop.wait("all of them run", lambda: begun(folder, 1) == MANY)
    return jobs


def begun(folder: Path, attempt: int) -> int:
    return sum(path.suffix == f".{attempt}" for path in folder.iterdir())


def end_leases(loop: Loop) -> None:
    """As if they had run out: nobody waits half a minute for that here."""
    with loop.connect() as conn:
        conn.execute("UPDATE shardwheel.executions SET lease_until = now() WHERE state = 'running'")


def old_results(loop: Loop) -> list[Result]:
    """What the worker would report of all that it runs now."""
    with loop.connect() as conn:
        rows = conn.execute(
            """SELECT uuid_send(execution_id), uuid_send(job_id), partition, attempt, uuid_send(claim_token)
                 FROM shardwheel.executions WHERE state = 'running'"""
        ).fetchall()
    return [
        Result(FORMAT_VERSION, execution, job, partition, attempt, token, Outcome.SUCCEEDED, 0, 1, "w")
        for execution, job, partition, attempt, token in rows
    ]


def check_second_attempts(loop: Loop, jobs: list[JobRow]) -> None:
    """Every one ran again and ended well; the first attempts are no failures, and nothing of them counts."""
    (rows,) = zip(*(loop.executions(job) for job in jobs), strict=True)
    assert {(row["attempt"], row["failures"], row["crashes"], row["output"]) for row in rows} == {
        (2, 0, 1, 2)
    }
    with loop.connect() as conn:
        attempts = Counter(conn.execute("SELECT attempt, outcome FROM shardwheel.attempts").fetchall())
    assert attempts == {(1, "crashed"): MANY, (2, "succeeded"): MANY}


def test_a_worker_killed_under_a_hundred_executions(loop: Loop, tmp_path: Path) -> None:
    _, worker, _ = loop.start_all()
    folder = tmp_path / "many"
    folder.mkdir()
    jobs = start_many(loop, folder)
    late = old_results(loop)
    assert len(late) == MANY
    loop.end(worker, signal.SIGKILL)
    end_leases(loop)
    loop.start("worker")
    loop.wait("every one runs again", lambda: begun(folder, 2) == MANY)
    with loop.connect() as conn, conn.transaction():
        assert settle(conn, late).stale == MANY
    (folder / "go").touch()
    loop.wait("all succeed", lambda: all(loop.states(job) == ["succeeded"] for job in jobs))
    check_second_attempts(loop, jobs)


def test_a_worker_frozen_under_a_hundred_executions_wakes_to_no_effect(loop: Loop, tmp_path: Path) -> None:
    _, worker, _ = loop.start_all()
    folder = tmp_path / "many"
    folder.mkdir()
    jobs = start_many(loop, folder)
    worker.send_signal(signal.SIGSTOP)
    end_leases(loop)
    loop.start("worker", "another")
    (folder / "go").touch()
    loop.wait("all succeed elsewhere", lambda: all(loop.states(job) == ["succeeded"] for job in jobs))
    worker.send_signal(signal.SIGCONT)
    assert loop.end(worker, signal.SIGTERM) == 0  # It ends what it holds first, and reports it.
    after = loop.create("echo")
    loop.wait("results reported since are settled too", lambda: loop.states(after) == ["succeeded"])
    with loop.connect() as conn:
        conn.execute("DELETE FROM shardwheel.attempts WHERE job_id = %s", [uuid.UUID(bytes=after.job_id)])
    check_second_attempts(loop, jobs)


def test_what_ctx_leaves_behind(loop: Loop) -> None:
    loop.start_all()
    job = loop.create("resumes", params={"key": {"$secret": "mail"}}, timeout_s=60)
    loop.wait("it succeeds", lambda: loop.states(job) == ["succeeded"])
    (row,) = loop.executions(job)
    assert row["output"] == {"done": [1, 2], "length": 8}
    assert row["checkpoint"] == [1, 2]
    assert row["progress"] == {"pct": 100, "note": "attempt 2"}
    with loop.connect() as conn:
        lines = read_logs(conn, "default", row["execution_id"].bytes)
        ((message,),) = conn.execute("SELECT message FROM shardwheel.attempts WHERE attempt = 1").fetchall()
    assert [(line.attempt, line.level, line.text) for line in lines] == [
        (1, "warning", "key key=[secret]"),
        (2, "warning", "key key=[secret]"),
    ]
    assert message == "not with [secret]"


def test_a_wish_to_stop_reaches_a_running_handler(loop: Loop, tmp_path: Path) -> None:
    loop.start("shard")
    loop.start("results")
    loop.start("worker --pool medium")
    began = tmp_path / "began"
    job = loop.create("stoppable", pool="medium", params={"began": str(began)})
    loop.wait("it runs", began.exists)
    (row,) = loop.executions(job)
    with loop.connect() as conn:
        assert cancel_execution(conn, "default", row["execution_id"].bytes) == "already_running"
    loop.wait("it is cancelled", lambda: loop.states(job) == ["cancelled"])
