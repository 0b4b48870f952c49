"""Runs keep the version that they began with, whatever is edited meanwhile; on both stores."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from trio.testing import MockClock, trio_test

from shardwheel.dag import parse_dag
from shardwheel.store.dag_reading import get_dag, task_ids_of
from shardwheel.store.dags import create_dag, edit_dag
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Dag, DagScene, dag_scene
from tests.contract.loop_rig import LoopRig


def task(key: str, *parents: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "task": "work", "depends_on": list(parents)} | fields


async def created(s: DagScene, *tasks: dict[str, Any], **fields: Any) -> Dag:
    body = {"every": "1h", "tasks": list(tasks)} | fields
    return await as_stored(s, await s.rig.run(create_dag, "t", parse_dag(body)))


async def as_stored(s: DagScene, dag_id: bytes) -> Dag:
    """Its latest version."""
    stored = await s.rig.run(get_dag, "t", dag_id)
    return Dag(stored.job, await s.rig.run(task_ids_of, stored))


async def edited(s: DagScene, dag: Dag, **changes: Any) -> Dag:
    await s.rig.run(edit_dag, "t", dag.job.job_id, changes)
    return await as_stored(s, dag.job.job_id)


@trio_test
async def test_a_run_goes_on_with_the_tasks_edges_and_params_that_it_began_with(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with dag_scene(rig) as s:
        old = await created(s, task("a"), task("b", "a", params={"v": 1}), task("c", "b"))
        run_id = await s.start(old)
        new = await edited(s, old, tasks=[task("a"), task("b", params={"v": 2}), task("d", "a", "b")])
        seen = []
        while claimed := await s.claim_waiting():
            seen += [(old.keys[one.job_id], msgspec.json.decode(one.params)) for one in claimed]
            await s.store.settle([s.result(old, one, {}) for one in claimed])
        assert seen == [("a", {}), ("b", {"v": 1}), ("c", {})]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)
        later = await s.start(new, 3_600_000)
        assert sorted(new.keys[one.job_id] for one in await s.claim_waiting()) == ["a", "b"]
        assert (await s.run_state(later))[1] == 3


@trio_test
async def test_a_run_keeps_its_policy_and_its_rounds(rig: LoopRig, clock: MockClock | None) -> None:
    async with dag_scene(rig) as s:
        dag = await created(s, task("a"), policy="retry", max_retries=2, backoff={"base_s": 0})
        run_id = await s.start(dag)
        await edited(s, dag, max_retries=0, backoff={"base_s": 3_600})
        assert await s.play(dag, {"a": Outcome.FATAL}) == ["a", "a", "a"]
        await edited(s, dag, policy="fail_fast")
        assert (await s.run_state(run_id))[0] == "failed"
        later = await s.start(dag, 3_600_000)
        assert await s.play(dag, {"a": Outcome.FATAL}) == ["a"]
        assert (await s.run_state(later))[0] == "failed"


@trio_test
async def test_tasks_that_an_edit_adds_have_greater_ids_than_their_dag(
    rig: LoopRig, clock: MockClock | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever claims locks the DAG first, in key order; after a fail-over the clock may be behind."""
    async with dag_scene(rig) as s:
        dag = await created(s, task("a"))
        monkeypatch.setattr("shardwheel.store.dags.read_now_ms", lambda conn: 1_000)
        grown = await edited(s, dag, tasks=[task("a"), task("b", "a")])
        assert all(task_id > dag.job.job_id for task_id in grown.tasks.values())
