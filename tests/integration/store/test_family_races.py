"""Children of a scheduled job on a real PostgreSQL: joins that race, by every way in which a parent ends;
edges that race, of which two never close a cycle; a child that is stored while its only parent begins."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice, product

import pytest

from shardwheel.errors import ConflictError, UsageError
from shardwheel.execution import Claimed, ResultsStand
from shardwheel.ids import fire_id, text_of
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.children import store_jobs
from shardwheel.store.dag_hands import Hand, force_complete, skip_task
from shardwheel.store.dag_sweep import sweep_tasks
from shardwheel.store.dependencies import add_dependency
from shardwheel.store.jobs import create_jobs, get_job
from shardwheel.store.requests import cancel_execution
from shardwheel.store.settle import settle
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Dag
from tests.integration.store.dag_race import Connection, Party, Race, told

pytestmark = pytest.mark.servers

RUNS = 300
HAND = Hand("t", "somebody")
# How a parent ends while the other one does, and what becomes of d if that one succeeds.
WAYS = {
    "result": "queued",
    "force": "queued",
    "skip": "upstream_skipped",
    "dead": "upstream_failed",
    "cancel": "upstream_failed",
    "expiry": "upstream_skipped",
    "sweep": "upstream_failed",
}


class FamilyRace(Race):
    """The same diamond, but a is a job with a schedule, and its run is that of the others."""

    def plant(self) -> Dag:
        (root,) = create_jobs(self.conn, "t", [parse_posting({"task": "work", "every": "1h", "name": "a"})])
        b, c = self.child("b", root), self.child("c", root)
        return Dag(get_job(self.conn, "t", root), {"a": root, "b": b, "c": c, "d": self.child("d", b, c)})

    def child(self, name: str, *parents: bytes) -> bytes:
        body = {"task": "work", "name": name, "parents": [text_of(parent) for parent in parents]}
        return store_jobs(self.conn, "t", [parse_posting(body)])[0]

    def prepare(self, conn: Connection, way: str, one: Claimed) -> None:
        """What must be so before a parent can end that way."""
        if way == "cancel":
            with conn.transaction():
                settle(conn, [told(one, Outcome.RELEASED)])
        elif way == "expiry":
            conn.execute(
                "UPDATE shardwheel.executions SET state = 'held', reason = 'expired', claim_token = NULL,"
                " lease_until = NULL, timeout_at = NULL WHERE execution_id = %s",
                [Uuid(one.execution_id)],
            )
        elif way == "sweep":
            conn.execute(
                "UPDATE shardwheel.executions SET crashes = 1, lease_until = now() - interval '1 second'"
                " WHERE execution_id = %s",
                [Uuid(one.execution_id)],
            )

    def end(self, conn: Connection, way: str, one: Claimed) -> None:
        key = self.dag.keys[one.job_id]
        with conn.transaction():
            if way == "force":
                force_complete(conn, HAND, one.dag_run_id, key)
            elif way == "skip":
                skip_task(conn, HAND, one.dag_run_id, key, "skip")
            elif way == "cancel":
                assert cancel_execution(conn, "t", one.execution_id) == "cancelled"
            elif way in ("expiry", "sweep"):
                sweep_tasks(conn, [self.dag.job.partition], ResultsStand("g", {}))
            else:
                settle(conn, [told(one, Outcome.SUCCEEDED if way == "result" else Outcome.FATAL)])


@pytest.fixture
def race(migrated_database: str) -> Iterator[FamilyRace]:
    race = FamilyRace(migrated_database)
    yield race
    race.conn.close()


def test_racing_parents_join_once_by_whichever_ways_they_end(race: FamilyRace) -> None:
    """Each way against each."""
    pairs = race.start(RUNS)
    assert len(pairs) == RUNS
    ways = list(islice(cycle(product(WAYS, WAYS)), RUNS))

    def party(side: int) -> Party:
        def work(conn: Connection, barrier: threading.Barrier) -> None:
            for parents, way in zip(pairs, ways, strict=True):
                race.prepare(conn, way[side], parents[side])
                barrier.wait()
                race.end(conn, way[side], parents[side])

        return work

    race.at_once(party(0), party(1))
    assert dict(race.joined()) == Counter(becomes(*both) for both in ways)
    stuck = race.conn.execute(
        "SELECT count(*) FROM shardwheel.dag_counters WHERE pending <> 0 OR child_id <> %s AND pending < 0",
        [Uuid(race.dag.tasks["d"])],
    ).fetchone()
    assert stuck == (0,)


def becomes(*both: str) -> str:
    """A parent that failed outweighs one that was skipped, and that one those that are satisfied."""
    ends = {WAYS[way] for way in both}
    return next(end for end in ("upstream_failed", "upstream_skipped", "queued") if end in ends)


def test_parents_in_one_batch_join_once(race: FamilyRace) -> None:
    pairs = race.start(RUNS)
    with race.conn.transaction():
        settled = settle(race.conn, [told(one) for pair in pairs for one in pair])
    assert settled.by_state == {"succeeded": 2 * RUNS}
    assert race.joined() == [("queued", RUNS)]


def test_of_two_edges_at_once_that_close_a_cycle_one_is_refused(race: FamilyRace) -> None:
    rounds = 20
    body = {"task": "work", "parents": [text_of(race.dag.tasks["a"])]}
    made = store_jobs(race.conn, "t", [parse_posting(body)] * (2 * rounds))
    pairs = list(zip(made[::2], made[1::2], strict=True))
    refused: list[str] = []

    def party(is_first: bool) -> Party:
        def work(conn: Connection, barrier: threading.Barrier) -> None:
            for one, other in pairs:
                barrier.wait()
                try:
                    with conn.transaction():
                        add_dependency(conn, "t", *((one, other) if is_first else (other, one)))
                except UsageError as error:
                    refused.append(str(error))

        return work

    race.at_once(party(True), party(False))
    assert [message for message in refused if "in a cycle" in message] == refused
    assert len(refused) == rounds
    for one, other in pairs:
        parents = [get_job(race.conn, "t", job_id).parents for job_id in (one, other)]
        assert sorted(map(len, parents)) == [1, 2]


def test_a_child_stored_while_its_only_parent_begins_runs_or_is_refused(race: FamilyRace) -> None:
    rounds = 30
    once = parse_posting({"task": "work", "run_at": "2020-01-01T00:00:00Z"})
    roots = [get_job(race.conn, "t", one) for one in create_jobs(race.conn, "t", [once] * rounds)]
    runs: list[bool] = []
    stored: list[bool] = []

    def begins(conn: Connection, barrier: threading.Barrier) -> None:
        for root in roots:
            at_ms = root.anchor_ms or 0
            name = fire_id(root.job_id, root.partition, at_ms)
            fire = race.fire(name, root.job_id, at_ms, root.schedule_no)
            barrier.wait()
            (claimed,) = race.claim([fire])
            runs.append(claimed.dag_run_id != b"")

    def stores(conn: Connection, barrier: threading.Barrier) -> None:
        for root in roots:
            posting = parse_posting({"task": "work", "parents": [text_of(root.job_id)]})
            barrier.wait()
            try:
                with conn.transaction():
                    store_jobs(conn, "t", [posting])
                stored.append(True)
            except ConflictError:
                stored.append(False)

    race.at_once(begins, stores)
    assert stored == runs
