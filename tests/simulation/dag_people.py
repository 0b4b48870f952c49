"""People with DAGs: they post random ones, trigger, pause, edit and delete them, and lay hands on runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from psycopg import Connection

from shardwheel.dag import parse_dag
from shardwheel.dag_run import SKIPPED_BY_HAND, SKIPPED_WITH_CHILDREN
from shardwheel.memory import rows
from shardwheel.memory.dag_rows import DAG_RUNS, DAG_TASKS, DagRun
from shardwheel.memory.loop_store import MemoryLoopStore
from shardwheel.store.dag_hands import Done, Hand, cancel_run, force_complete, rerun, skip_task
from shardwheel.store.dag_reading import get_dag
from shardwheel.store.dags import create_dag, delete_dag, edit_dag, pause_dag, resume_dag, trigger_dag
from shardwheel.store.requests import cancel_execution
from tests.simulation.notes import TENANT, note_hand, note_job
from tests.simulation.world import TASKS, World

_Connection = Connection[Any]
HAND = Hand(TENANT, "somebody")
# What a handler does, by its task's params; None: whatever comes, as in jobs.
DEEDS = (*["well"] * 6, None, None, "once", "fails", "fatal")


class DagPeople:
    def __init__(self, world: World, store: MemoryLoopStore) -> None:
        self._world = world
        self._random = world.random
        self._store = store
        self._dags: list[bytes] = []

    @property
    def wishes(self) -> list[Callable[[], Any]]:
        often = [self._trigger, self._trigger, self._complete, self._skip, self._rerun, self._rerun]
        seldom = [self._edit, self._edit, self._pause, self._resume, self._resume, self._cancel_run]
        return [*often, *seldom, self._cancel_task, self._delete, self.create]

    async def create(self) -> None:
        posting = parse_dag(random_dag(self._random, self._tasks()))

        def create(conn: _Connection) -> bytes:
            dag_id = create_dag(conn, TENANT, posting)
            note_job(conn, dag_id)
            return dag_id

        self._dags.append(await self._store.run(create))

    def _tasks(self) -> list[dict[str, Any]]:
        tasks = random_tasks(self._random)
        for task in tasks if self._world.limited else ():
            task["task"] = self._random.choice(TASKS)
        return tasks

    async def _change(self, change: Callable[..., Any], *args: Any) -> None:
        if not self._dags:
            return
        dag_id = self._random.choice(self._dags)

        def apply(conn: _Connection) -> None:
            change(conn, TENANT, dag_id, *args)
            note_job(conn, dag_id)

        await self._store.run(apply)

    async def _edit(self) -> None:
        """Another schedule, other tasks, or the same tasks with other edges."""
        r = self._random
        if r.random() < 0.4:
            await self._change(self._rewire)
        elif r.random() < 0.5:
            await self._change(edit_dag, {"every": r.choice([3, 4, 7])})
        else:
            await self._change(edit_dag, {"tasks": self._tasks(), "policy": random_policy(r)})

    def _rewire(self, conn: _Connection, tenant_id: str, dag_id: bytes) -> None:
        tasks = get_dag(conn, tenant_id, dag_id).definition["tasks"]
        of_edges = ("depends_on", "fan_out")
        bodies = [{name: task[name] for name in task if name not in of_edges} for task in tasks]
        edit_dag(conn, tenant_id, dag_id, {"tasks": wired(self._random, bodies)})

    async def _pause(self) -> None:
        await self._change(pause_dag)

    async def _resume(self) -> None:
        await self._change(resume_dag)

    async def _delete(self) -> None:
        if self._random.random() < 0.3:
            await self._change(delete_dag)

    async def _trigger(self) -> None:
        if self._dags:
            request = self._random.randbytes(16)
            await self._store.run(trigger_dag, TENANT, self._random.choice(self._dags), request)

    # --- hands ----------------------------------------------------------------------------------------

    async def _complete(self) -> None:
        output = self._random.choice([None, [], [1, 2]])
        run, key = self._any_task()
        if run is not None:
            hand = partial(force_complete, run_id=run.dag_run_id, key=key, output=output)
            await self._lay(hand, run, key, "force_completed")

    async def _skip(self) -> None:
        children: Literal["run", "skip"] = "run" if self._random.random() < 0.5 else "skip"
        run, key = self._any_task()
        if run is not None:
            hand = partial(skip_task, run_id=run.dag_run_id, key=key, children=children)
            became = SKIPPED_BY_HAND if children == "run" else SKIPPED_WITH_CHILDREN
            await self._lay(hand, run, key, became)

    async def _rerun(self) -> None:
        """All failed tasks of a run, or some of them."""
        run = self._any_run(failed=True)
        if run is not None:
            keys = self._keys(run)
            some = None if self._random.random() < 0.7 else self._random.sample(keys, min(2, len(keys)))
            await self._lay(partial(rerun, run_id=run.dag_run_id, keys=some), run, "", "rerun")

    async def _cancel_run(self) -> None:
        run = self._any_run()
        if run is not None and self._random.random() < 0.5:
            await self._lay(partial(cancel_run, run_id=run.dag_run_id), run, "", "cancelled")

    async def _lay(self, hand: Callable[..., Done], run: DagRun, key: str, became: str) -> None:
        def laid(conn: _Connection) -> None:
            if hand(conn, HAND).changed:
                note_hand(conn, run.dag_run_id, key, became)

        await self._store.run(laid)

    async def _cancel_task(self) -> None:
        """One task or item of a run that is under way."""
        open_rows = [
            row.execution_id
            for row in self._world.postgres.tables[rows.EXECUTIONS].values()
            if row.dag_run_id is not None and row.state in rows.UNFINISHED
        ]
        if open_rows:
            await self._store.run(cancel_execution, TENANT, self._random.choice(open_rows))

    def _any_run(self, *, failed: bool = False) -> DagRun | None:
        """One of the latest, as a dashboard shows them."""
        runs: list[DagRun] = sorted(self._world.postgres.tables[DAG_RUNS].values())
        shown = [run for run in runs if run.failed or not failed][-6:]
        return self._random.choice(shown) if shown else None

    def _any_task(self) -> tuple[DagRun | None, str]:
        run = self._any_run()
        return run, "" if run is None else self._random.choice(self._keys(run))

    def _keys(self, run: DagRun) -> Sequence[str]:
        tasks = self._world.postgres.tables[DAG_TASKS].values()
        return sorted(
            task.task_key for task in tasks if (task.dag_id, task.version) == (run.dag_id, run.version)
        )


# --- what they post -----------------------------------------------------------------------------------


def random_dag(r: random.Random, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    timing: dict[str, Any] = {"every": r.choice([4, 6, 9])} if r.random() < 0.8 else {}
    return timing | {
        "policy": random_policy(r),
        "max_retries": r.randint(0, 2),
        "backoff": {"kind": "fixed", "base_s": r.choice([0.5, 3]), "jitter": 0.1},
        "overlap": r.choice(["allow", "allow", "skip", "queue"]),
        "misfire": r.choice(["fire_all", "fire_last", "skip"]),
        "misfire_grace_s": r.choice([5, 60]),
        "tasks": tasks,
    }


def random_policy(r: random.Random) -> str:
    return r.choice(["fail_fast", "continue", "continue", "retry"])


def random_tasks(r: random.Random) -> list[dict[str, Any]]:
    return wired(r, [random_task(r, number) for number in range(r.randint(1, 7))])


def random_task(r: random.Random, number: int) -> dict[str, Any]:
    deed = r.choice(DEEDS)
    params: dict[str, Any] = {} if deed is None else {"deed": deed}
    if r.random() < 0.85:
        params["items"] = r.choice([0, 1, 2, 3])
    body = {
        "key": f"t{number}",
        "task": "work",
        "params": params,
        "priority": r.choice(["critical", "normal", "normal", "low"]),
        "timeout_s": r.choice([4, 20]),
        "max_retries": r.randint(0, 2),
        "backoff": {"kind": "fixed", "base_s": 0.5, "jitter": 0.1},
    }
    return body | ({"not_after_s": 3} if r.random() < 0.1 else {})


def wired(r: random.Random, bodies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With edges: a chain, layers (a diamond is some), or whatever comes. Of those with one parent, some fan
    out."""
    keys = [body["key"] for body in bodies]
    shape, width = r.choice(["chain", "layers", "layers", "any"]), r.choice([1, 2, 3])
    tasks: list[dict[str, Any]] = []
    for number, body in enumerate(bodies):
        layer = (number + width - 1) // width  # The first is alone.
        before = [place for place in range(number) if (place + width - 1) // width == layer - 1]
        places = {
            "chain": [number - 1] if number else [],
            "layers": before,
            "any": sorted(r.sample(range(number), r.randint(0, min(3, number)))),
        }[shape]
        fans = len(places) == 1 and not tasks[places[0]]["fan_out"] and r.random() < 0.4
        tasks.append({**body, "depends_on": [keys[place] for place in places], "fan_out": fans})
    return tasks
