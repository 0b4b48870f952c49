"""Whatever is done to a run takes time in proportion to its size, though PostgreSQL knows nothing of it yet.

A DAG has ten thousand tasks, a fan-out ten thousand items, made a moment ago: the planner takes them for one
row. A plan that goes through all of the run for each of its tasks then takes longer than a transaction may,
and so does every further try: the run would be stuck, and a settlement with it whatever else waits for that.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from shardwheel.dag import parse_dag
from shardwheel.execution import Claimant, Claimed
from shardwheel.store import dag_hands
from shardwheel.store import sql as statements
from shardwheel.store.claim import claim
from shardwheel.store.dag_put_off import EVERY_END, tell_runs
from shardwheel.store.dag_reading import read_run
from shardwheel.store.dags import create_dag
from shardwheel.store.requests import trigger_job
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome
from tests.integration.store.gate import result_of

pytestmark = pytest.mark.servers
SIZE = 200
CLAIMED_AT_ONCE = 10
FOLDER = Path(statements.__file__).parent
NAMES = {
    path.read_bytes(): path.stem
    for path in FOLDER.glob("*.sql")
    if path.stem.startswith("dag_") or path.stem == "read_run_tasks"
}
HAND = dag_hands.Hand("t", "somebody")
Tasks = list[dict[str, Any]]


class Explaining(psycopg.Connection[Any]):
    """Remembers of each statement about DAGs how many rows a step of its plan had in hand at most."""

    most: dict[str, float]

    def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
        name = NAMES.get(query) if isinstance(query, bytes) else None
        if name is not None:
            with self.transaction(force_rollback=True):
                explained = super().execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + query, params).fetchone()
            assert explained is not None
            rows = max(gone_through(explained[0][0]["Plan"]))
            self.most[name] = max(rows, self.most.get(name, 0))
        return super().execute(query, params, **options)


def gone_through(plan: dict[str, Any]) -> Iterator[float]:
    removed = plan.get("Rows Removed by Join Filter", 0) + plan.get("Rows Removed by Filter", 0)
    yield plan["Actual Loops"] * (plan["Actual Rows"] + removed)
    for part in plan.get("Plans", ()):
        yield from gone_through(part)


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Explaining]:
    with Explaining.connect(migrated_database) as connection:
        # As where nobody has come by yet to look at what is new.
        for table in ("dag_tasks", "dag_edges", "dag_put_off", "dag_fans", "dag_counters", "dag_runs"):
            connection.execute(f"ALTER TABLE shardwheel.{table} SET (autovacuum_enabled = off)")
        connection.commit()
        connection.most = {}
        yield connection


class Played:
    """A run that has just begun."""

    def __init__(self, conn: Explaining, tasks: Tasks, policy: str) -> None:
        self.conn = conn
        posted = {
            "tasks": tasks,
            "policy": policy,
            "max_retries": 1,
            "backoff": {"kind": "fixed", "base_s": 0},
        }
        dag_id = create_dag(conn, "t", parse_dag(posted))
        self.run_id = trigger_job(conn, "t", dag_id, uuid.uuid4().bytes)
        conn.commit()
        assert self.claim() == []  # That was the DAG's own.

    def claim(self) -> list[Claimed]:
        rows = self.conn.execute(
            "SELECT execution_id, job_id, partition, scheduled_ms, attempt FROM shardwheel.waiting_entries"
        ).fetchall()
        fires = [
            (Fire(FORMAT_VERSION, FireKind.FIRE, one, job, partition, 0, at_ms, at_ms, attempt), 2)
            for one, job, partition, at_ms, attempt in rows
        ]
        claimant = Claimant("w", "short", frozenset({"work"}), uuid.uuid4().bytes)
        parts = [fires[at : at + CLAIMED_AT_ONCE] for at in range(0, len(fires), CLAIMED_AT_ONCE)]
        claimed = [one for part in parts for one in claim(self.conn, part, claimant).claimed]
        self.conn.commit()
        return claimed

    def settle(
        self,
        claimed: Sequence[Claimed],
        outcome: Outcome = Outcome.SUCCEEDED,
        output: Any = None,
        put_off: bool = False,
    ) -> None:
        told = {} if output is None else {"output": msgspec.json.encode(output)}
        results = [result_of(one, outcome, dag_run_id=one.dag_run_id, **told) for one in claimed]
        settle(self.conn, results, put_off=put_off)
        self.conn.commit()

    def hand(self, hand: Any, *arguments: Any) -> None:
        assert hand(self.conn, HAND, self.run_id, *arguments).changed
        self.conn.commit()

    def state(self) -> str:
        return str(read_run(self.conn, "t", self.run_id)["state"])


def wide() -> Tasks:
    children = [{"key": f"c{n}", "task": "work", "depends_on": ["root"]} for n in range(SIZE)]
    join = {"key": "join", "task": "work", "depends_on": [child["key"] for child in children]}
    return [{"key": "root", "task": "work"}, *children, join]


def fan() -> Tasks:
    each = {"key": "each", "task": "work", "depends_on": ["list"], "fan_out": True}
    return [{"key": "list", "task": "work"}, each, {"key": "join", "task": "work", "depends_on": ["each"]}]


def squares(conn: Explaining) -> dict[str, float]:
    """Statements that went through more than a few times the run."""
    assert len(conn.most) > 8
    return {name: rows for name, rows in conn.most.items() if rows > 12 * SIZE}


@pytest.mark.parametrize("policy", ["fail_fast", "continue", "retry"])
def test_what_becomes_of_a_wide_run_takes_no_square_of_its_tasks(conn: Explaining, policy: str) -> None:
    run = Played(conn, wide(), policy)
    run.settle(run.claim())
    run.settle(run.claim(), Outcome.FATAL)
    if policy != "retry":
        assert run.state() in ("failed", "partial")
        run.hand(dag_hands.rerun)
    again = run.claim()
    assert len(again) == SIZE
    run.settle(again[: SIZE // 2], put_off=True)
    run.hand(dag_hands.skip_task, "join", "run")
    run.hand(dag_hands.cancel_run)
    assert run.state() == "cancelled"
    assert squares(conn) == {}


@pytest.mark.parametrize("policy", ["fail_fast", "continue", "retry"])
def test_what_becomes_of_a_fan_out_takes_no_square_of_its_items(conn: Explaining, policy: str) -> None:
    run = Played(conn, fan(), policy)
    run.settle(run.claim(), output={"count": SIZE})
    run.settle(run.claim(), Outcome.FATAL)
    if policy != "retry":
        assert run.state() in ("failed", "partial")
        run.hand(dag_hands.rerun)
    again = run.claim()
    assert len(again) == SIZE
    run.settle(again[: SIZE // 2], put_off=True)
    tell_runs(conn, [run.run_id], most=EVERY_END)
    conn.commit()
    run.hand(dag_hands.force_complete, "each", [1, 2])
    run.settle(run.claim())
    assert run.state() == "succeeded"
    assert squares(conn) == {}
