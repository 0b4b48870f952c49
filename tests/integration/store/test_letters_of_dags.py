"""Redriving dead letters of DAG tasks, on a real PostgreSQL: their runs go on, once, from where they were."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from trio.testing import trio_test

from shardwheel.errors import ConflictError, UsageError
from shardwheel.ids import text_of
from shardwheel.store import letter_requests
from shardwheel.store.audit import Actor, AuditFilter, list_audit
from shardwheel.store.dag_hands import cancel_run, force_complete
from shardwheel.store.jobs import delete_job
from shardwheel.store.letter_requests import discard_letter, redrive_letter, redrive_some
from shardwheel.store.letters import LetterFilter, list_letters
from shardwheel.store.settle import settle
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Dag, DagScene, Shape, dag_scene
from tests.contract.loop_rig import LoopRig, postgres_loop_rig
from tests.integration.store.dag_race import Connection, Race, told

pytestmark = pytest.mark.servers

ANNA = Actor("anna", "operator")
OPEN = LetterFilter()
CHAIN = {"a": (), "b": ("a",), "c": ("b",)}
FAN = {"list": (), "each": ("list",), "join": ("each",)}


@pytest.fixture
def rig(migrated_database: str) -> Iterator[LoopRig]:
    with postgres_loop_rig(migrated_database) as rig:
        yield rig


async def open_letters(s: DagScene) -> list[bytes]:
    """Their ids, the oldest first."""
    page = await s.rig.run(list_letters, "t", OPEN)
    return [bytes.fromhex(letter["id"].replace("-", "")) for letter in reversed(page.items)]


async def redrive(s: DagScene, letter_id: bytes, *params: Any) -> bytes:
    return await s.rig.run(redrive_letter, "t", letter_id, ANNA, *params)


@trio_test
async def test_the_run_of_a_dead_task_goes_on_and_succeeds(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        await s.play(dag, {"b": Outcome.FATAL})
        assert (await s.run_state(run_id))[0] == "failed"
        (letter,) = await open_letters(s)
        execution = await redrive(s, letter)
        assert await redrive(s, letter) == execution
        assert await open_letters(s) == []
        assert (await s.run_state(run_id), await s.fire_state(run_id)) == (("running", 2, 1, 0, 0), "running")
        assert [fire.execution_id for fire in await s.waiting()] == [execution]
        assert await s.play(dag) == ["b", "c"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)
        entries = await rig.run(list_audit, "t", AuditFilter(action="dead_letter.redrive"))
        (entry,) = entries.items
        assert (entry["actor"], entry["details"]["dag_run"]) == ("anna", text_of(run_id))


@trio_test
async def test_what_dies_again_is_another_letter_of_the_same_execution(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        await s.start(dag)
        await s.play(dag, {"b": Outcome.FATAL})
        (first,) = await open_letters(s)
        execution = await redrive(s, first)
        await s.play(dag, {"b": Outcome.FATAL})
        (second,) = await open_letters(s)
        assert second != first
        assert await redrive(s, second) == execution == await redrive(s, first)
        assert await s.play(dag) == ["b", "c"]


@trio_test
@pytest.mark.parametrize("at_once", [1, 200])
async def test_several_letters_of_several_runs_go_on_by_filter(rig: LoopRig, at_once: int) -> None:
    """One by one too: then a run goes on from its first letter while its others wait."""
    async with dag_scene(rig) as s:
        shape = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
        dag = await s.plant(Shape(shape, policy="continue"))
        run_ids = [await s.start(dag, at_ms) for at_ms in range(3)]
        await s.play(dag, {"b": Outcome.FATAL, "c": Outcome.FATAL})
        done, cursor = 0, None
        while True:
            page = partial(redrive_some, cursor=cursor, at_once=at_once)
            dealt = await rig.run(page, "t", OPEN, ANNA)
            done, cursor = done + dealt.done, dealt.next_cursor
            assert dealt.refused == {}
            if cursor is None:
                break
        assert done == 6
        assert sorted(await s.play(dag)) == ["b"] * 3 + ["c"] * 3 + ["d"] * 3
        for run_id in run_ids:
            assert await s.run_state(run_id) == ("succeeded", 0, 4, 0, 0)
        assert (await rig.run(redrive_some, "t", OPEN, ANNA)).done == 0


@trio_test
async def test_of_a_fan_out_only_the_items_that_are_meant_run_again(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"}), policy="continue"))
        run_id = await s.start(dag)
        await s.play(dag, {"list": (Outcome.SUCCEEDED, [1, 2, 3]), "each": Outcome.FATAL})
        one, two, three = await open_letters(s)
        await redrive(s, one)
        assert (await s.tasks(dag, run_id))["each"] == "running"
        assert await s.play(dag) == ["each"]
        assert (await s.tasks(dag, run_id))["each"] == "dead"
        assert (await s.run_state(run_id))[0] == "partial"
        await redrive(s, two)
        await redrive(s, three)
        assert await s.play(dag) == ["each", "each", "join"]
        assert await s.run_state(run_id) == ("succeeded", 0, 3, 0, 0)


@trio_test
async def test_a_list_that_was_none_waits_for_its_parent_again(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(FAN, frozenset({"each"})))
        run_id = await s.start(dag)
        await s.play(dag, {"list": (Outcome.SUCCEEDED, 7)})
        (letter,) = await open_letters(s)
        redriven = await rig.run(letter_requests.redrive, "t", letter, ANNA)
        assert [end.outcome for end in redriven.resolved.ends] == ["failed"]
        assert letter not in await open_letters(s)
        # It fans out from what its parent said, which is no list yet: dead once more, and said once more.
        assert (await s.run_state(run_id))[0] == "failed"
        assert len(await open_letters(s)) == 1
        assert [end.outcome for end in (await rig.run(redrive_some, "t", OPEN, ANNA)).resolved.ends] == [
            "failed"
        ]


@trio_test
async def test_what_can_not_go_on_is_refused_with_the_reason(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN, policy="continue"))
        run_ids = [await s.start(dag, at_ms) for at_ms in range(4)]
        await s.play(dag, {"b": Outcome.FATAL})
        by_run = {
            letter["dag_run_id"]: bytes.fromhex(letter["id"].replace("-", ""))
            for letter in (await rig.run(list_letters, "t", OPEN)).items
        }
        cancelled, completed, discarded, deleted = (by_run[text_of(run_id)] for run_id in run_ids)
        with pytest.raises(UsageError, match="params"):
            await redrive(s, cancelled, {"n": 1})
        await s.hand(force_complete, run_ids[1], "b")
        with pytest.raises(ConflictError, match="by hand"):
            await redrive(s, completed)
        await rig.run(discard_letter, "t", discarded, ANNA)
        with pytest.raises(ConflictError, match="discarded"):
            await redrive(s, discarded)
        await redrive(s, cancelled)
        await s.hand(cancel_run, run_ids[0])
        assert await redrive(s, cancelled)  # It was redriven, whatever came of it.
        await rig.run(delete_job, "t", dag.job.job_id)
        with pytest.raises(ConflictError, match="deleted"):
            await redrive(s, deleted)


@trio_test
async def test_of_a_dag_whose_runs_must_not_overlap_one_run_goes_on(rig: LoopRig) -> None:
    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN), overlap="skip")
        first, second = await s.start(dag), b""
        await s.play(dag, {"b": Outcome.FATAL})
        second = await s.start(dag, 3_600_000)
        await s.play(dag, {"b": Outcome.FATAL})
        other = await s.plant(Shape(CHAIN))
        third = await s.start(other)
        await s.play(other, {"b": Outcome.FATAL})
        dealt = await rig.run(redrive_some, "t", OPEN, ANNA)
        assert (dealt.done, dealt.refused) == (2, {"run_overlaps": 1})
        assert [(await s.run_state(one))[0] for one in (first, second, third)] == [
            "running",
            "failed",
            "running",
        ]
        (letter,) = await open_letters(s)
        with pytest.raises(ConflictError, match="another run of its DAG is not over"):
            await redrive(s, letter)
        both = Dag(dag.job, {f"{key}1": one for key, one in dag.tasks.items()} | other.tasks)
        await s.play(both)
        await redrive(s, letter)
        await s.play(dag)
        assert (await s.run_state(second))[0] == "succeeded"


def test_two_redrives_at_once_let_each_run_go_on_once(migrated_database: str) -> None:
    race = Race(migrated_database)
    pairs = race.start(40)
    with race.conn.transaction():
        settle(race.conn, [told(one, Outcome.FATAL) for pair in pairs for one in pair])

    def redriving(conn: Connection, barrier: threading.Barrier) -> None:
        barrier.wait()
        cursor = None
        while True:
            with conn.transaction():
                dealt = redrive_some(conn, "t", OPEN, ANNA, cursor=cursor, at_once=7)
            cursor = dealt.next_cursor
            if cursor is None:
                return

    race.at_once(redriving, redriving)
    attempts = (
        "SELECT DISTINCT state, attempt FROM shardwheel.executions WHERE job_id = ANY (%s) ORDER BY 1, 2"
    )
    tasks = [text_of(race.dag.tasks[key]) for key in "bcd"]
    assert race.conn.execute(attempts, [tasks]).fetchall() == [("queued", 2), ("skipped", 1)]
    assert race.joined() == [("pending_again", 40)]
    totals = race.conn.execute(
        "SELECT DISTINCT state, unfinished, failed FROM shardwheel.dag_runs"
    ).fetchall()
    assert totals == [("running", 3, 0)]
    race.conn.close()


@trio_test
async def test_the_api_may_let_its_tenants_runs_go_on_and_no_others(rig: LoopRig) -> None:
    def by_its_role(conn: psycopg.Connection[Any], tenant_id: str, letter_id: bytes) -> bytes:
        conn.execute(
            "SELECT set_config('role', 'shardwheel_api', true), set_config('shardwheel.tenant', %s, true)",
            [tenant_id],
        )
        return redrive_letter(conn, tenant_id, letter_id, ANNA)

    async with dag_scene(rig) as s:
        dag = await s.plant(Shape(CHAIN))
        run_id = await s.start(dag)
        await s.play(dag, {"b": Outcome.FATAL})
        (letter,) = await open_letters(s)
        with pytest.raises(UsageError, match="no dead letter"):
            await rig.run(by_its_role, "rival", letter)
        await rig.run(by_its_role, "t", letter)
        assert await s.play(dag) == ["b", "c"]
        assert (await s.run_state(run_id))[0] == "succeeded"
