"""DAGs on real servers and real processes: chains, fan-outs, many runs at once, and kill -9 in the middle."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.jobs import create_jobs, get_job
from shardwheel.store.requests import trigger_job
from tests.contract.dag_scene import Dag, Shape, plant_rows
from tests.integration.loop.rig import Loop

pytestmark = pytest.mark.servers


class DagLoop(Loop):
    def plant(self, shape: Shape, postings: Mapping[str, Mapping[str, Any]] | None = None) -> Dag:
        """A DAG without a schedule; each task echoes, unless its posting says otherwise."""
        known = postings or {}
        posted = [parse_posting({"task": "echo"} | dict(known.get(key, {}))) for key in shape.parents]
        with self.connect() as conn, conn.transaction():
            (dag_id,) = create_jobs(conn, "default", [parse_posting({"task": "echo", "every": "1000h"})])
            tasks = dict(zip(shape.parents, create_jobs(conn, "default", posted), strict=True))
            dag = Dag(get_job(conn, "default", dag_id), tasks)
            plant_rows(conn, dag, shape)
        return dag

    def trigger(self, dag: Dag) -> bytes:
        with self.connect() as conn, conn.transaction():
            return trigger_job(conn, "default", dag.job.job_id, uuid.uuid4().bytes)

    def runs(self, column: str = "state") -> list[Any]:
        with self.connect() as conn:
            statement = f"SELECT {column} FROM shardwheel.dag_runs ORDER BY dag_run_id"  # noqa: S608
            return [row[0] for row in conn.execute(statement.encode())]

    def tell_times(self) -> None:
        """How long runs took, by task, and the ways of a task: for whoever asks (pytest -s)."""
        with self.connect() as conn:
            ((took, whole_s),) = conn.execute(
                "SELECT min(extract(epoch FROM ended_at - started_at) * 1000 / succeeded)::float,"
                " extract(epoch FROM max(ended_at) - min(started_at))::float FROM shardwheel.dag_runs"
            ).fetchall()
            steps = conn.execute(
                "SELECT percentile_cont(0.5) WITHIN GROUP"
                " (ORDER BY extract(epoch FROM x.started_at - x.due_at) * 1000)::float,"
                " percentile_cont(0.5) WITHIN GROUP"
                " (ORDER BY extract(epoch FROM x.ended_at - a.ended_at) * 1000)::float"
                " FROM shardwheel.executions AS x JOIN shardwheel.attempts AS a USING (execution_id)"
                " WHERE x.dag_run_id IS NOT NULL"
            ).fetchone()
        print(f"the quickest run: {took:.1f} ms a task; {whole_s:.1f} s from the first start to the last end")
        print(f"medians of queued → claimed, ended → settled: {steps} ms")

    def attempts_of(self, run_id: bytes) -> int:
        with self.connect() as conn:
            row = conn.execute(
                "SELECT count(*) FROM shardwheel.attempts AS a JOIN shardwheel.executions AS x"
                " USING (execution_id) WHERE x.dag_run_id = %s",
                [Uuid(run_id)],
            ).fetchone()
            return 0 if row is None else int(row[0])


@pytest.fixture
def loop(
    tmp_path: Path,
    migrated_database: str,
    etcd_server: EtcdServer,
    own_kafka: Callable[[], KafkaServer],
) -> Iterator[DagLoop]:
    cluster = f"loop-{uuid.uuid4().hex[:8]}"
    rig = DagLoop(tmp_path, migrated_database, etcd_server.address, own_kafka().bootstrap, cluster)
    yield rig
    rig.close()


def chain(length: int) -> Shape:
    return Shape({f"t{n}": (f"t{n - 1}",) if n else () for n in range(length)})


def test_a_chain_runs_through(loop: DagLoop) -> None:
    loop.start_all()
    short, long = loop.plant(chain(3)), loop.plant(chain(100))
    loop.trigger(short)  # What is slow the first time (topics, groups, connections) is over after this one.
    loop.wait("a short chain", lambda: loop.runs() == ["succeeded"])
    run_id = loop.trigger(long)
    loop.wait("a long one", lambda: loop.runs() == ["succeeded"] * 2)
    assert loop.attempts_of(run_id) == 100
    loop.tell_times()


def test_a_fan_out_of_1000_joins_although_results_and_shard_are_killed_in_the_middle(
    loop: DagLoop, tmp_path: Path
) -> None:
    shard, _, results = loop.start_all()
    shape = Shape({"list": (), "each": ("list",), "join": ("each",)}, frozenset({"each"}))
    go = tmp_path / "go"
    items = {"task": "tenth", "params": {"go": str(go)}}
    dag = loop.plant(shape, {"list": {"task": "count", "params": {"to": 1000}}, "each": items})
    run_id = loop.trigger(dag)
    loop.wait("some items are settled", lambda: loop.attempts_of(run_id) > 1)
    loop.end(results)
    loop.end(shard)
    assert loop.attempts_of(run_id) < 1001  # Whatever the machine's speed: every tenth item waits.
    loop.start("shard")
    loop.start("results")
    go.touch()
    loop.wait("all of it", lambda: loop.runs() == ["succeeded"])
    with loop.connect() as conn:
        rows = conn.execute(
            "SELECT state, count(*)::int FROM shardwheel.executions WHERE dag_run_id = %s GROUP BY 1",
            [Uuid(run_id)],
        ).fetchall()
    assert rows == [("succeeded", 1003)]
    loop.tell_times()


def test_200_runs_of_50_tasks_at_once_leave_none_stuck(loop: DagLoop) -> None:
    """Ten layers of five, each task after all five of the layer before."""
    parents: dict[str, tuple[str, ...]] = {}
    for layer in range(10):
        above = tuple(key for key in parents if key.startswith(f"{layer - 1}."))
        parents |= {f"{layer}.{place}": above for place in range(5)}
    shape = Shape(parents)
    dag = loop.plant(shape)
    runs = [loop.trigger(dag) for _ in range(200)]
    loop.start_all()
    loop.wait("all of them", lambda: loop.runs() == ["succeeded"] * 200)
    assert loop.attempts_of(runs[-1]) == 50
    loop.tell_times()
