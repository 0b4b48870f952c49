"""A scene for DAGs on either store: shapes by plain rows, runs played from fire to end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.execution import FIRST_PAGES, Claimed
from shardwheel.memory import dag_rows, rows
from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_hands import Done, Hand
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome, Result
from tests.contract.loop_rig import LoopRig, MemoryLoopRig
from tests.contract.loop_scene import ALL, NOWHERE, Scene, fire_of, result_of

HAND = Hand("t", "somebody")
# What a task did: an outcome, or an outcome with its output.
Deed = Outcome | tuple[Outcome, Any]


class Shape(NamedTuple):
    """Keys with their parents; which of them fan out."""

    parents: Mapping[str, tuple[str, ...]]
    fans: frozenset[str] = frozenset()
    policy: str = "fail_fast"
    sla_ms: int | None = None


class Dag(NamedTuple):
    job: JobRow
    tasks: dict[str, bytes]

    @property
    def keys(self) -> dict[bytes, str]:
        return {task_id: key for key, task_id in self.tasks.items()}


class DagScene(Scene):
    """One store, and what one does to DAGs in it."""

    async def plant(self, shape: Shape, task_fields: Mapping[str, Any] | None = None, **fields: Any) -> Dag:
        """A DAG as its definition would be stored."""
        job = await self.create(**({"every": "1h"} | fields))
        postings = [
            parse_posting({"task": "work", "params": {"key": key}} | dict(task_fields or {}))
            for key in shape.parents
        ]
        ids = await self.rig.run(create_jobs, "t", postings)
        dag = Dag(job, dict(zip(shape.parents, ids, strict=True)))
        if isinstance(self.rig, MemoryLoopRig):
            _plant_in_memory(self.rig, dag, shape)
        else:
            await self.rig.run(plant_rows, dag, shape)
        return Dag(await self.job(job.job_id), dag.tasks)

    async def start(self, dag: Dag, at_ms: int = 0) -> bytes:
        fire = fire_of(dag.job, at_ms)
        await self.claim(fire)
        return fire.execution_id

    async def waiting(self) -> list[Fire]:
        changes = await self.load()
        return [
            Fire(
                FORMAT_VERSION,
                FireKind.FIRE,
                one.execution_id,
                one.job_id,
                one.partition,
                0,
                one.scheduled_ms,
                one.due_ms,
                one.attempt,
            )
            for one in changes.waiting
        ]

    async def claim_waiting(self) -> list[Claimed]:
        fires = await self.waiting()
        return (await self.claim(*fires)).claimed if fires else []

    async def play(self, dag: Dag, deeds: Mapping[str, Deed] | None = None, most: int = 1_000) -> list[str]:
        """Run whatever waits until nothing does; the keys in the order in which they ran."""
        ran: list[str] = []
        for _ in range(most):
            claimed = await self.claim_waiting()
            if not claimed:
                return ran
            ran += [dag.keys[one.job_id] for one in claimed]
            await self.store.settle([self.result(dag, one, deeds or {}) for one in claimed])
        raise AssertionError("it goes on for ever")

    def result(self, dag: Dag, claimed: Claimed, deeds: Mapping[str, Deed]) -> Result:
        deed = deeds.get(dag.keys[claimed.job_id], Outcome.SUCCEEDED)
        outcome, output = deed if isinstance(deed, tuple) else (deed, None)
        encoded = b"" if output is None else msgspec.json.encode(output)
        return result_of(claimed, outcome, output=encoded, dag_run_id=claimed.dag_run_id)

    async def hand(self, hand: Any, run_id: bytes, *args: Any) -> Done:
        done: Done = await self.rig.run(hand, HAND, run_id, *args)
        return done

    async def sweep_dags(self) -> None:
        await self.store.sweep_tasks(list(ALL), NOWHERE)
        await self.store.sweep_runs(list(ALL), bytes(16))

    async def release(self) -> None:
        await self.store.sweep_held(list(ALL), FIRST_PAGES)

    async def run_state(self, run_id: bytes) -> tuple[str, int, int, int, int]:
        """The run's state, then how many are unfinished, succeeded, failed, skipped."""
        if isinstance(self.rig, MemoryLoopRig):
            run = self.rig.server.tables[dag_rows.DAG_RUNS][run_id]
            return run.state, run.unfinished, run.succeeded, run.failed, run.skipped
        found: list[tuple[str, int, int, int, int]] = await self.rig.run(_run_state, run_id)
        return found[0]

    async def ended_at(self, run_id: bytes) -> Any:
        """By the store's clock; None: it is not over."""
        if isinstance(self.rig, MemoryLoopRig):
            return self.rig.server.tables[dag_rows.DAG_RUNS][run_id].ended_ms
        return (await self.rig.run(_ended_at, run_id))[0][0]

    async def tasks(self, dag: Dag, run_id: bytes) -> dict[str, str]:
        """By key: the state, or the reason of what was skipped; items as key[number]."""
        if isinstance(self.rig, MemoryLoopRig):
            table = self.rig.server.tables[rows.EXECUTIONS].values()
            found = [(x.job_id, x.item_no, x.state, x.reason) for x in table if x.dag_run_id == run_id]
        else:
            found = await self.rig.run(_tasks, run_id)
        return {
            dag.keys[job_id] + ("" if item_no is None else f"[{item_no}]"): (
                reason if state in ("skipped", "held") else state
            )
            for job_id, item_no, state, reason in found
        }

    async def end_behind_their_backs(self, run_id: bytes) -> None:
        """What waits of a run succeeds, and nobody is told."""
        if not isinstance(self.rig, MemoryLoopRig):
            await self.rig.run(_end_behind_their_backs, run_id)
            return
        table = self.rig.server.tables[rows.EXECUTIONS]
        for key, row in table.items():
            if row.dag_run_id == run_id and row.state == "queued":
                table[key] = row._replace(state="succeeded")

    async def fire_state(self, run_id: bytes) -> str:
        if isinstance(self.rig, MemoryLoopRig):
            return str(self.rig.server.tables[rows.EXECUTIONS][run_id].state)
        return str((await self.rig.run(_fire_state, run_id))[0][0])


def _plant_in_memory(rig: MemoryLoopRig, dag: Dag, shape: Shape) -> None:
    tables, dag_id = rig.server.tables, dag.job.job_id
    _retell(tables, dag_id, kind="dag", task="")
    tables[dag_rows.DAG_VERSIONS][dag_id, 1] = dag_rows.DagVersion(dag_id, 1, shape.policy, shape.sla_ms)
    for key, task_id in dag.tasks.items():
        _retell(tables, task_id, kind="task", partition=dag.job.partition)
        task = dag_rows.DagTask(dag_id, 1, task_id, key, key in shape.fans, len(shape.parents[key]))
        tables[dag_rows.DAG_TASKS][dag_id, 1, task_id] = task
        for parent in shape.parents[key]:
            edge = dag_rows.DagEdge(dag_id, 1, task_id, dag.tasks[parent])
            tables[dag_rows.DAG_EDGES][edge] = edge


def _retell(tables: Any, job_id: bytes, **columns: Any) -> None:
    stored: rows.StoredJob = tables[rows.JOBS][job_id]
    tables[rows.JOBS][job_id] = stored._replace(row=stored.row._replace(**columns))


def plant_rows(conn: Connection[Any], dag: Dag, shape: Shape) -> None:
    """On PostgreSQL, from jobs that exist: a DAG and its tasks."""
    of_dag = {"dag": Uuid(dag.job.job_id), "tenant": dag.job.tenant_id, "partition": dag.job.partition}
    conn.execute("SET LOCAL session_replication_role = replica")  # A kind never changes: no trigger says so.
    conn.execute("UPDATE shardwheel.jobs SET kind = 'dag', task = '' WHERE job_id = %(dag)s", of_dag)
    conn.execute(
        "INSERT INTO shardwheel.dag_versions (dag_id, version, tenant_id, partition, policy, sla_ms)"
        " VALUES (%(dag)s, 1, %(tenant)s, %(partition)s, %(policy)s, %(sla)s)",
        of_dag | {"policy": shape.policy, "sla": shape.sla_ms},
    )
    for key, task_id in dag.tasks.items():
        of_task = of_dag | {"task": Uuid(task_id), "key": key, "fan_out": key in shape.fans}
        conn.execute(
            "UPDATE shardwheel.jobs SET kind = 'task', dag_id = %(dag)s, task_key = %(key)s,"
            " partition = %(partition)s WHERE job_id = %(task)s",
            of_task,
        )
        conn.execute(
            "INSERT INTO shardwheel.dag_tasks (dag_id, version, task_id, tenant_id, partition, task_key,"
            " fan_out, in_degree)"
            " VALUES (%(dag)s, 1, %(task)s, %(tenant)s, %(partition)s, %(key)s, %(fan_out)s, %(degree)s)",
            of_task | {"degree": len(shape.parents[key])},
        )
        for parent in shape.parents[key]:
            conn.execute(
                "INSERT INTO shardwheel.dag_edges (dag_id, version, child_id, parent_id, tenant_id,"
                " partition)"
                " VALUES (%(dag)s, 1, %(task)s, %(parent)s, %(tenant)s, %(partition)s)",
                of_task | {"parent": Uuid(dag.tasks[parent])},
            )


def _run_state(conn: Connection[Any], run_id: bytes) -> list[Any]:
    return conn.execute(
        "SELECT state, unfinished, succeeded, failed, skipped FROM shardwheel.dag_runs WHERE dag_run_id = %s",
        [Uuid(run_id)],
    ).fetchall()


def _ended_at(conn: Connection[Any], run_id: bytes) -> list[Any]:
    return conn.execute(
        "SELECT ended_at FROM shardwheel.dag_runs WHERE dag_run_id = %s", [Uuid(run_id)]
    ).fetchall()


def _tasks(conn: Connection[Any], run_id: bytes) -> list[Any]:
    return conn.execute(
        "SELECT uuid_send(job_id), item_no, state, reason FROM shardwheel.executions WHERE dag_run_id = %s",
        [Uuid(run_id)],
    ).fetchall()


def _fire_state(conn: Connection[Any], run_id: bytes) -> list[Any]:
    return conn.execute(
        "SELECT state FROM shardwheel.executions WHERE execution_id = %s", [Uuid(run_id)]
    ).fetchall()


def _end_behind_their_backs(conn: Connection[Any], run_id: bytes) -> None:
    conn.execute(
        "UPDATE shardwheel.executions SET state = 'succeeded' WHERE dag_run_id = %s AND state = 'queued'",
        [Uuid(run_id)],
    )


@asynccontextmanager
async def dag_scene(rig: LoopRig) -> AsyncIterator[DagScene]:
    async with rig.open() as store:
        yield DagScene(rig, store)
