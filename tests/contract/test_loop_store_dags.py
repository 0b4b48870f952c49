"""DAGs as people state them: what the twin and PostgreSQL both store, keep, refuse and show to a shard."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import trio_test

from shardwheel.dag import parse_dag
from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.store.dag_reading import get_dag, read_dag, task_ids_of
from shardwheel.store.dag_row import DagRow
from shardwheel.store.dags import create_dag, delete_dag, edit_dag, pause_dag, resume_dag
from shardwheel.store.jobs import edit_job, get_job
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import ALL


def task(key: str, *parents: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "task": "work", "depends_on": list(parents)} | fields


DIAMOND = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c", timeout_s=5)]


async def created(rig: LoopRig, **fields: Any) -> DagRow:
    dag_id = await rig.run(create_dag, "t", parse_dag({"tasks": DIAMOND} | fields))
    return await rig.run(get_dag, "t", dag_id)


@trio_test
async def test_tasks_live_in_their_dags_partition_without_a_schedule(rig: LoopRig) -> None:
    async with rig.open():
        dag = await created(rig, every="10s", max_runs=3, overlap="queue", policy="retry", sla_s=5)
        assert (dag.job.kind, dag.job.overlap, dag.policy, dag.sla_ms) == ("dag", "queue", "retry", 5_000)
        assert dag.job.timing.count_between(dag.job.effective_from_ms - 1, 2**42) == 3
        ids = await rig.run(task_ids_of, dag)
        for key, task_id in ids.items():
            row = await rig.run(get_job, "t", task_id)
            assert (row.kind, row.name, row.partition) == ("task", key, dag.job.partition)
            assert (row.schedule, row.timeout_ms) == ('{"never":true}', 5_000 if key == "d" else 60_000)


@trio_test
async def test_a_shard_gets_the_dag_and_not_its_tasks(rig: LoopRig) -> None:
    async with rig.open() as store:
        async with store.load(ALL) as pages:
            before = [page async for page in pages][-1]
        dag = await created(rig, every="10s")
        changes = await store.changes(ALL, before.snapshot)
        assert [entry.job_id for entry in changes.jobs] == [dag.job.job_id]
        async with store.load(ALL) as pages:
            loaded = [entry.job_id async for page in pages for entry in page.jobs]
        assert dag.job.job_id in loaded
        assert not set((await rig.run(task_ids_of, dag)).values()) & set(loaded)


@trio_test
async def test_an_edit_keeps_the_jobs_that_say_the_same(rig: LoopRig) -> None:
    async with rig.open():
        dag = await created(rig, every="10s")
        before = await rig.run(task_ids_of, dag)
        changed = [task("a"), task("b", "a", params={"x": 1}), task("e", "b")]
        edited = await rig.run(edit_dag, "t", dag.job.job_id, {"tasks": changed})
        assert (edited.version, edited.job.schedule_no) == (2, dag.job.schedule_no)
        after = await rig.run(task_ids_of, edited)
        assert after["a"] == before["a"]
        assert after["b"] != before["b"]
        assert await rig.run(task_ids_of, dag) == before
        again = await rig.run(edit_dag, "t", dag.job.job_id, {"tasks": changed})
        assert again.version == 2
        moved = await rig.run(edit_dag, "t", dag.job.job_id, {"every": "20s"})
        assert moved.job.schedule_no != dag.job.schedule_no
        with pytest.raises(UsageError, match="a → b → a"):
            await rig.run(edit_dag, "t", dag.job.job_id, {"tasks": [task("a", "b"), task("b", "a")]})


@trio_test
async def test_pause_resume_and_delete(rig: LoopRig) -> None:
    async with rig.open():
        dag_id = (await created(rig, every="10s")).job.job_id
        assert (await rig.run(pause_dag, "t", dag_id)).job.state == "paused"
        assert (await rig.run(resume_dag, "t", dag_id)).job.state == "active"
        await rig.run(delete_dag, "t", dag_id)
        shown = await rig.run(read_dag, "t", dag_id)
        assert (shown["state"], shown["next_at"]) == ("deleted", None)
        ids = await rig.run(task_ids_of, await rig.run(get_dag, "t", dag_id))
        assert {(await rig.run(get_job, "t", task_id)).state for task_id in ids.values()} == {"deleted"}
        with pytest.raises(NotFoundError):
            await rig.run(pause_dag, "t", dag_id)


@trio_test
async def test_a_task_gets_no_schedule(rig: LoopRig) -> None:
    async with rig.open():
        ids = await rig.run(task_ids_of, await created(rig))
        with pytest.raises(ConflictError, match="without a schedule of its own"):
            await rig.run(edit_job, "t", ids["a"], {"every": "10s"})
