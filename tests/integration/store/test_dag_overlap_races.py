"""A DAG whose runs must not overlap, on a real PostgreSQL: reruns, and fires, that race for its slot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from shardwheel.errors import ConflictError
from shardwheel.ids import fire_id
from shardwheel.store.dag_hands import Hand, rerun
from shardwheel.store.settle import settle
from shardwheel.wire import Outcome
from tests.integration.store.dag_race import Connection, Party, Race, told

pytestmark = pytest.mark.servers

ROUNDS = 40
HAND = Hand("t", "somebody")
HOUR_MS = 3_600_000


@pytest.fixture
def race(migrated_database: str) -> Iterator[Race]:
    race = Race(migrated_database)
    yield race
    race.conn.close()


def failed_runs(race: Race, runs: int) -> list[bytes]:
    """Runs that ended so while overlapping was allowed; from now on it is not."""
    pairs = race.start(runs)
    with race.conn.transaction():
        settle(race.conn, [told(one, Outcome.FATAL) for pair in pairs for one in pair])
    race.conn.execute("UPDATE shardwheel.jobs SET overlap = 'queue' WHERE kind = 'dag'")
    return [b.dag_run_id for b, _ in pairs]


def reruns(run_ids: list[bytes], after: Callable[[], None]) -> Party:
    def work(conn: Connection, barrier: threading.Barrier) -> None:
        for run_id in run_ids:
            barrier.wait()
            try:
                with conn.transaction():
                    rerun(conn, HAND, run_id)
            except ConflictError:
                pass
            if barrier.wait() == 0:
                after()
            barrier.wait()

    return work


def going_on(race: Race) -> list[bytes]:
    """The runs under way; the slot is that of the one, of whichever."""
    rows = race.conn.execute(
        "SELECT uuid_send(x.execution_id) FROM shardwheel.executions AS x"
        " JOIN shardwheel.jobs AS j USING (job_id) WHERE j.kind = 'dag' AND x.state = 'running'"
    ).fetchall()
    slots = race.conn.execute("SELECT uuid_send(execution_id) FROM shardwheel.overlap_slots").fetchall()
    assert rows == slots
    return [row[0] for row in rows]


def end_all(race: Race) -> None:
    """What runs, or waits, dies: the run under way is over."""
    with race.conn.transaction():
        for claimed in iter(lambda: race.claim(race.waiting()), []):
            settle(race.conn, [told(one, Outcome.FATAL) for one in claimed])


def test_of_two_reruns_at_once_one_goes_on(race: Race) -> None:
    run_ids = failed_runs(race, 2 * ROUNDS)
    seen: list[list[bytes]] = []

    def look() -> None:
        seen.append(going_on(race))
        end_all(race)

    race.at_once(reruns(run_ids[:ROUNDS], look), reruns(run_ids[ROUNDS:], look))
    assert [len(one) for one in seen] == [1] * ROUNDS
    assert going_on(race) == []


def test_of_a_rerun_and_a_fire_at_once_one_goes_on(race: Race) -> None:
    """The fire that comes second is held; it goes on when the rerun is over."""
    run_ids = failed_runs(race, ROUNDS)
    job = race.dag.job
    seen: list[list[bytes]] = []

    def look() -> None:
        seen.append(going_on(race))
        end_all(race)
        end_all(race)

    def fires(conn: Connection, barrier: threading.Barrier) -> None:
        for number in range(ROUNDS):
            at_ms = job.effective_from_ms + (1_000 + number) * HOUR_MS
            fire = race.fire(fire_id(job.job_id, job.partition, at_ms), job.job_id, at_ms, job.schedule_no)
            barrier.wait()
            with conn.transaction():
                race.claim_on(conn, [fire])
            if barrier.wait() == 0:
                look()
            barrier.wait()

    race.at_once(reruns(run_ids, look), fires)
    assert [len(one) for one in seen] == [1] * ROUNDS
    assert going_on(race) == []
