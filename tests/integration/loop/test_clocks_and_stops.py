"""Clocks that jump, processes that stand still, two servers away at once: every time still runs, and once."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from shardwheel.store.job_row import JobRow
from shardwheel.store.migrate import migrate
from tests.integration.loop.rig import Loop
from tests.servers import hasty_kafka, started

pytestmark = pytest.mark.servers
STEADY = {"every": "200ms", "misfire": "fire_all", "misfire_grace_s": 600}
# Python imports a module of this name before anything else.
WALL_CLOCK = """
import os, pathlib, time

folder = pathlib.Path(__file__).parent
real, real_ns = time.time, time.time_ns
off_s = lambda: int((folder / "off_s").read_text() or 0)
time.time = lambda: real() + off_s()
time.time_ns = lambda: real_ns() + off_s() * 10**9
(folder / f"planted-{os.getpid()}").touch()
"""
DATABASE_CLOCK = """
CREATE SCHEMA planted;
CREATE TABLE planted.jump (off_by interval NOT NULL);
INSERT INTO planted.jump VALUES ('0 s');
CREATE FUNCTION planted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
  AS 'SELECT pg_catalog.clock_timestamp() + off_by FROM planted.jump'
"""

Rig = Callable[..., Loop]


@pytest.fixture(scope="module")
def calm_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One for the tests that leave it alone. What one of them left there is of jobs that nobody knows."""
    with started(hasty_kafka(tmp_path_factory.mktemp("kafka"))) as server:
        yield server


@pytest.fixture
def rig(tmp_path: Path, etcd_server: EtcdServer) -> Iterator[Rig]:
    made: list[Loop] = []

    def make(dsn: str, kafka: KafkaServer, **environment: str) -> Loop:
        cluster = f"loop-{uuid.uuid4().hex[:8]}"
        made.append(Loop(tmp_path, dsn, etcd_server.address, kafka.bootstrap, cluster, **environment))
        return made[-1]

    yield make
    for loop in made:
        loop.close()


def goes_on(loop: Loop, job: JobRow, what: str, runs: int = 10) -> None:
    before = loop.count(job)
    loop.wait(what, lambda: loop.count(job) >= before + runs)


def test_the_wall_clock_is_never_read_on_the_scheduling_path(
    rig: Rig, tmp_path: Path, migrated_database: str, calm_kafka: KafkaServer
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(WALL_CLOCK)
    (planted / "off_s").write_text("0")
    loop = rig(migrated_database, calm_kafka, PYTHONPATH=str(planted))
    processes = loop.start_all()
    job = loop.create("echo", **STEADY)
    goes_on(loop, job, "it fires", 5)
    assert all((planted / f"planted-{process.pid}").exists() for process in processes)
    for off_s in (7200, -7200):
        (planted / "off_s").write_text(str(off_s))
        goes_on(loop, job, f"it goes on while the wall clock is off by {off_s} s")
    loop.check_whole(job)


def test_the_database_clock_set_forth_and_back(
    rig: Rig, migrated_database: str, calm_kafka: KafkaServer
) -> None:
    """As far as everybody sees who asks this database for the time. Forth, what became due at once runs, each
    time of it; back, the wheel stands still until the clock has caught up, and fires nothing again."""
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute(DATABASE_CLOCK)
        name = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("ALTER DATABASE {} SET search_path = planted, pg_catalog").format(name))
    loop = rig(migrated_database, calm_kafka)
    loop.start_all()
    job = loop.create("echo", **STEADY)
    goes_on(loop, job, "it fires", 5)
    for off_by, runs in (("20 s", 105), ("17 s", 10)):
        with loop.connect() as conn:
            conn.execute("UPDATE planted.jump SET off_by = %s", [off_by])
        goes_on(loop, job, f"it goes on after the clock was set to {off_by} ahead", runs)
    loop.check_whole(job)


def test_a_shard_that_stands_still_for_a_second_and_for_longer_than_its_lease(
    rig: Rig, migrated_database: str, calm_kafka: KafkaServer
) -> None:
    loop = rig(migrated_database, calm_kafka, SHARDWHEEL_LEASE_TTL_S="3")
    first, _, _ = loop.start_all()
    job = loop.create("echo", **STEADY)
    goes_on(loop, job, "it fires", 5)
    first.send_signal(signal.SIGSTOP)
    time.sleep(1)
    first.send_signal(signal.SIGCONT)
    goes_on(loop, job, "it goes on after a second")
    first.send_signal(signal.SIGSTOP)
    loop.start("shard")
    goes_on(loop, job, "another one takes over at the end of the lease")
    first.send_signal(signal.SIGCONT)
    loop.wait("the woken one finds itself replaced, and ends", lambda: first.poll() is not None)
    goes_on(loop, job, "the other one goes on")
    loop.check_whole(job)


def test_kafka_and_postgres_away_at_the_same_time(
    rig: Rig, own_postgres: Callable[[], PostgresServer], own_kafka: Callable[[], KafkaServer]
) -> None:
    postgres, kafka = own_postgres(), own_kafka()
    with psycopg.connect(postgres.dsn, autocommit=True) as conn:
        migrate(conn)
    loop = rig(postgres.dsn, kafka)
    loop.start_all()
    job = loop.create("echo", **STEADY)
    goes_on(loop, job, "it fires", 5)
    kafka.kill()
    postgres.kill()
    postgres.start(120)
    kafka.start()
    goes_on(loop, job, "it goes on when both are back")
    loop.check_whole(job)
