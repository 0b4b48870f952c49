"""Jobs with parents as people state them: what the twin and PostgreSQL both store, keep and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock, trio_test

from shardwheel.dag import parse_dag
from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.ids import text_of
from shardwheel.posting import parse_posting
from shardwheel.store.children import delete_child, store_jobs
from shardwheel.store.dag_reading import get_dag, task_ids_of
from shardwheel.store.dags import create_dag, delete_dag
from shardwheel.store.dependencies import add_dependency, remove_dependency
from shardwheel.store.families import read_family
from shardwheel.store.jobs import delete_job, edit_job, get_job, pause_job, resume_job
from shardwheel.store.requests import backfill_job, trigger_job
from tests.contract.family_scene import DIAMOND, ROOT, FamilyScene, family_scene
from tests.contract.loop_rig import LoopRig


async def version_of(s: FamilyScene, root_id: bytes) -> int:
    return (await s.rig.run(read_family, await s.job(root_id))).version


@trio_test
async def test_children_live_in_their_roots_partition_without_a_schedule(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family(DIAMOND, {"timeout_s": 5, "tags": ["x"]})
        root = await s.job(family.job.job_id)
        assert (root.kind, root.has_children, root.schedule_no) == ("job", True, family.job.schedule_no)
        for key, parents in DIAMOND.items():
            child = await s.job(family.tasks[key])
            assert (child.kind, child.dag_id, child.partition) == ("task", root.job_id, root.partition)
            assert (child.schedule, child.timeout_ms, child.tags) == ('{"never":true}', 5_000, ["x"])
            assert sorted(child.parents) == sorted(family.tasks[parent] for parent in parents)
            assert child.job_id > root.job_id
        assert {entry.job_id for entry in (await s.load()).jobs} >= {root.job_id}
        assert not {entry.job_id for entry in (await s.load()).jobs} & set(family.tasks.values()) - {
            root.job_id
        }


@trio_test
async def test_a_batch_is_one_version_and_in_its_own_order(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        first, second = await s.create(every="1h"), await s.create(every="1h")
        one = parse_posting({"task": "work", "parents": [text_of(first.job_id)]})
        two = parse_posting({"task": "work", "parents": [text_of(second.job_id)]})
        plain = parse_posting({"task": "work", "every": "5m"})
        ids = await rig.run(store_jobs, "t", [two, one, plain, one, two])
        jobs = [await s.job(job_id) for job_id in ids]
        assert len(set(ids)) == 5
        assert [list(job.parents) for job in jobs] == [
            [second.job_id],
            [first.job_id],
            [],
            [first.job_id],
            [second.job_id],
        ]
        assert [await version_of(s, root.job_id) for root in (first, second)] == [1, 1]


@trio_test
async def test_parents_that_can_not_be_are_refused(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        root, other = await s.create(every="1h"), await s.create(every="1h")
        with pytest.raises(NotFoundError, match="parents: there is no job") as refused:
            await s.child(b"\x01" * 16)
        assert refused.value.field == "parents"
        foreign = parse_posting({"task": "work", "parents": [text_of(root.job_id)]})
        with pytest.raises(NotFoundError, match="there is no job"):
            await rig.run(store_jobs, "rival", [foreign])
        with pytest.raises(ConflictError, match="put them into one DAG"):
            await s.child(root.job_id, other.job_id)
        await rig.run(delete_job, "t", other.job_id)
        with pytest.raises(NotFoundError, match="is deleted"):
            await s.child(other.job_id)
        dag_id = await rig.run(create_dag, "t", parse_dag({"tasks": [{"key": "a", "task": "work"}]}))
        with pytest.raises(ConflictError, match="name one of its tasks"):
            await s.child(dag_id)
        child = await s.child(root.job_id)
        await s.child(root.job_id, child)
        assert await version_of(s, root.job_id) == 2


@trio_test
async def test_a_child_of_a_job_that_began_its_only_run_is_refused(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family({}, every=None, run_at="2020-01-01T00:00:00Z")
        await s.child(family.job.job_id)
        await s.end(family, await s.begin(family))
        with pytest.raises(ConflictError, match="would wait for ever"):
            await s.child(family.job.job_id)


@trio_test
async def test_a_child_gets_no_schedule_by_any_verb(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,)})
        child_id = family.tasks["b"]
        for changes in ({"every": "10s"}, {"run_at": "2030-01-01T00:00:00Z"}, {"overlap": "skip"}):
            with pytest.raises(UsageError, match="no schedule of its own"):
                await rig.run(edit_job, "t", child_id, changes)
        for verb in (pause_job, resume_job, delete_job):
            with pytest.raises(ConflictError, match="without a schedule of its own"):
                await rig.run(verb, "t", child_id)
        with pytest.raises(ConflictError, match="without a schedule of its own"):
            await rig.run(trigger_job, "t", child_id, b"r" * 16)
        with pytest.raises(ConflictError, match="without a schedule of its own"):
            await rig.run(backfill_job, "t", child_id, b"r" * 16, 1, 2)
        edited = await rig.run(edit_job, "t", child_id, {"params": {"x": 1}, "timeout_s": 7})
        assert (edited.params, edited.timeout_ms, edited.schedule) == ({"x": 1}, 7_000, '{"never":true}')
        with pytest.raises(UsageError, match="belongs to a job's creation"):
            await rig.run(edit_job, "t", child_id, {"parents": []})


@trio_test
async def test_an_edge_is_added_and_taken_away(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,), "c": (ROOT,), "d": ("c",)})
        root_id, b, c, d = (family.tasks[key] for key in (ROOT, "b", "c", "d"))
        for _ in range(2):
            assert set((await rig.run(add_dependency, "t", c, b)).parents) == {root_id, b}
        assert await version_of(s, root_id) == 4
        for child, parent, cycle in (
            (b, d, "b → c → d → b"),
            (root_id, d, "root → c → d → root"),
            (b, b, "b → b"),
        ):
            with pytest.raises(UsageError, match=cycle):
                await rig.run(add_dependency, "t", child, parent)
        for _ in range(2):
            assert list((await rig.run(remove_dependency, "t", c, root_id)).parents) == [b]
        with pytest.raises(ConflictError, match="is the only parent"):
            await rig.run(remove_dependency, "t", c, b)
        assert await version_of(s, root_id) == 5


@trio_test
async def test_edges_between_strangers_are_refused(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        family, other = await s.family({"b": (ROOT,)}), await s.family({"b": (ROOT,)})
        alone = await s.create(every="1h")
        b = family.tasks["b"]
        for parent in (other.tasks["b"], other.tasks[ROOT], alone.job_id):
            with pytest.raises(ConflictError, match="put both into one DAG"):
                await rig.run(add_dependency, "t", b, parent)
        with pytest.raises(ConflictError, match="has a schedule of its own"):
            await rig.run(add_dependency, "t", alone.job_id, b)
        with pytest.raises(NotFoundError, match="id: there is no job"):
            await rig.run(add_dependency, "rival", b, family.tasks[ROOT])
        with pytest.raises(NotFoundError, match="parent_id: there is no job"):
            await rig.run(add_dependency, "t", b, b"\x01" * 16)


@trio_test
async def test_a_parent_is_not_deleted_while_somebody_has_no_other(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with family_scene(rig) as s:
        family = await s.family({"b": (ROOT,), "c": ("b",)})
        with pytest.raises(ConflictError, match="is the only parent"):
            await rig.run(delete_child, "t", family.tasks["b"])
        await rig.run(add_dependency, "t", family.tasks["c"], family.tasks[ROOT])
        for _ in range(2):
            await rig.run(delete_child, "t", family.tasks["b"])
        assert list((await s.job(family.tasks["c"])).parents) == [family.tasks[ROOT]]
        assert (await s.job(family.tasks["b"])).state == "deleted"
        with pytest.raises(NotFoundError, match="is deleted"):
            await s.child(family.tasks["b"])
        with pytest.raises(ConflictError, match="deleted or replaced"):
            await rig.run(add_dependency, "t", family.tasks["c"], family.tasks["b"])


@trio_test
async def test_a_task_of_a_dag_may_be_a_parent(rig: LoopRig, clock: MockClock | None) -> None:
    async with family_scene(rig) as s:
        tasks = [{"key": "a", "task": "work"}, {"key": "b", "task": "work", "depends_on": ["a"]}]
        dag_id = await rig.run(create_dag, "t", parse_dag({"every": "1h", "tasks": tasks}))
        ids = await rig.run(task_ids_of, await rig.run(get_dag, "t", dag_id))
        child = await s.child(ids["a"], ids["b"], name="c", params={"x": 1})
        dag = await rig.run(get_dag, "t", dag_id)
        assert (dag.version, dag.definition["tasks"][-1]) == (
            2,
            {"key": "c", "task": "work", "params": {"x": 1}, "depends_on": ["a", "b"]},
        )
        row = await rig.run(get_job, "t", child)
        assert (row.dag_id, set(row.parents)) == (dag_id, set(ids.values()))
        with pytest.raises(UsageError, match="tags: a task of a DAG has none"):
            await s.child(ids["a"], tags=["x"])
        with pytest.raises(ConflictError, match="put them into one DAG"):
            await s.child(ids["a"], (await s.create(every="1h")).job_id)
        with pytest.raises(ConflictError, match="without a schedule of its own"):
            await rig.run(delete_child, "t", child)
        await rig.run(delete_dag, "t", dag_id)
        with pytest.raises(NotFoundError, match="is deleted"):
            await s.child(ids["a"])


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"parents": ["no id"]}, "parents", "not a UUID"),
        ({"parents": [text_of(b"\x01" * 16)] * 2}, "parents", "twice"),
        ({"parents": "x"}, "parents", "give a list"),
        ({"cron": "* * * * *"}, "cron", "no schedule of its own"),
        ({"every": "5s"}, "every", "no schedule of its own"),
        ({"delay": 1}, "delay", "no schedule of its own"),
        ({"run_at": "2030-01-01T00:00:00Z"}, "run_at", "no schedule of its own"),
        ({"time_zone": "Europe/Berlin"}, "time_zone", "no schedule of its own"),
        ({"jitter_s": 3}, "jitter_s", "no schedule of its own"),
        ({"misfire": "skip"}, "misfire", "no schedule of its own"),
        ({"overlap": "queue"}, "overlap", "no schedule of its own"),
    ],
)
def test_a_posting_with_parents_says_nothing_of_a_schedule(
    fields: dict[str, Any], field: str, problem: str
) -> None:
    body = {"task": "work", "parents": [text_of(b"\x01" * 16)]} | fields
    with pytest.raises(UsageError, match=problem) as refused:
        parse_posting(body)
    assert refused.value.field == field
