"""People: they make jobs and change their minds, now and then in transactions that take their time.

Every change is noted (`notes`), in the same transaction.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import trio
from psycopg import Connection

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.ids import fire_id
from shardwheel.memory.loop_store import MemoryLoopStore
from shardwheel.memory.pool import MemoryPool
from shardwheel.posting import parse_posting
from shardwheel.store.jobs import create_jobs, delete_job, edit_job, get_job, pause_job, resume_job
from shardwheel.store.requests import cancel_execution, trigger_job
from shardwheel.store.task_types import limit_task, pause_task, resume_task
from tests.simulation.dag_people import DagPeople
from tests.simulation.notes import TENANT, note_cancel, note_job
from tests.simulation.world import World

LIMITED = ("scarce", "shaky")
# How long the transactions of this task stay open after their work.
long_s: ContextVar[float] = ContextVar("long_s", default=0.0)

_Connection = Connection[Any]


class People:
    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._store = MemoryLoopStore(MemoryPool(world.postgres, limit_s=60))
        self._dags = DagPeople(world, self._store)
        self._jobs: list[bytes] = []

    async def live(self, until_s: float) -> None:
        """Create a few jobs or DAGs, then change them at random moments, several at a time."""
        makes_dags = self._world.has_dags
        first = [self._create, self._dags.create, self._dags.create] if makes_dags else None
        pace_s = 1.2 if makes_dags else 2.5
        async with trio.open_nursery() as nursery:
            for wish in first or [self._create] * self._random.randint(4, 7):
                nursery.start_soon(self._act, wish)
            while trio.current_time() < until_s:
                await trio.sleep(self._random.expovariate(1 / pace_s))
                nursery.start_soon(self._act, self._random.choice(self._wishes))

    @property
    def _wishes(self) -> list[Callable[[], Any]]:
        common = [self._edit, self._edit, self._edit, self._tags, self._pause, self._resume, self._resume]
        every = [*common, self._trigger, self._cancel, self._delete, self._create]
        limits = [self._limit, self._limit, self._pause_task, self._resume_task, self._resume_task]
        if self._world.has_dags:
            every = [*self._dags.wishes, self._random.choice(every)]
        return [*every, *limits] if self._world.limited else every

    async def relent(self) -> None:
        """What is left of their limits lets everything run within some minutes."""
        for task in LIMITED:
            await self._set_limits(task, max_running=self._random.choice([0, 4]))
            await self._set_limits(task, rate=self._random.choice(["none", "20/s"]))

    async def _limit(self) -> None:
        task = self._random.choice(LIMITED)
        if self._random.random() < 0.5:
            await self._set_limits(task, max_running=self._random.choice([0, 1, 1, 2, 3]))
        else:
            await self._set_limits(task, rate=self._random.choice(["none", "1/s", "3/s"]))

    async def _set_limits(self, task: str, **limits: Any) -> None:
        await self._store.run(partial(limit_task, **limits), TENANT, task)

    async def _pause_task(self) -> None:
        await self._store.run(pause_task, TENANT, self._random.choice(LIMITED), "somebody")

    async def _resume_task(self) -> None:
        await self._store.run(resume_task, TENANT, self._random.choice(LIMITED))

    async def _act(self, wish: Callable[[], Any]) -> None:
        long_s.set(self._random.choice([0.0, 0.0, self._random.uniform(0, 9)]))
        with suppress(UnavailableError, UsageError):  # They shrug, and want something else later.
            await wish()

    async def _create(self) -> None:
        body = {"task": "work"} | random_posting(self._random, self._now_ms())
        if self._world.limited:
            body |= {
                "task": self._random.choice(["work", "scarce", "scarce", "shaky", "shaky"]),
                "overlap": self._random.choice(["allow", "skip", "queue"]),
            }
        posting = parse_posting(body)

        def create(conn: _Connection) -> bytes:
            (job_id,) = create_jobs(conn, TENANT, [posting])
            note_job(conn, job_id)
            return job_id

        self._jobs.append(await self._store.run(create))

    async def _change(self, change: Callable[..., Any], *args: Any) -> None:
        if not self._jobs:
            return
        job_id = self._random.choice(self._jobs)

        def apply(conn: _Connection) -> None:
            change(conn, TENANT, job_id, *args)
            note_job(conn, job_id)

        await self._store.run(apply)

    async def _edit(self) -> None:
        await self._change(edit_job, random_timing(self._random, self._now_ms(), of_an_edit=True))

    async def _tags(self) -> None:
        await self._change(edit_job, {"tags": [str(self._random.random())[:8]]})

    async def _pause(self) -> None:
        await self._change(pause_job)

    async def _resume(self) -> None:
        await self._change(resume_job)

    async def _delete(self) -> None:
        if self._random.random() < 0.3:
            await self._change(delete_job)

    async def _trigger(self) -> None:
        if self._jobs:
            request = self._random.randbytes(16)
            await self._store.run(trigger_job, TENANT, self._random.choice(self._jobs), request)

    async def _cancel(self) -> None:
        """A time that is about to come, or has just been."""
        if not self._jobs:
            return
        job_id = self._random.choice(self._jobs)
        from_ms = self._now_ms() + self._random.randint(-4_000, 4_000)

        def cancel(conn: _Connection) -> None:
            job = get_job(conn, TENANT, job_id)
            next_ms = job.timing.next_after(from_ms)
            if next_ms is not None:
                execution = fire_id(job_id, job.partition, next_ms)
                cancel_execution(conn, TENANT, execution, job_id)
                note_cancel(conn, execution)

        await self._store.run(cancel)

    def _now_ms(self) -> int:
        return int(self._world.postgres.now_ms())


def random_timing(r: random.Random, now_ms: int, *, of_an_edit: bool = False) -> dict[str, Any]:
    kind = r.choice(["every", "every", "every", "every", "cron", "once"])
    if kind == "every":
        timing: dict[str, Any] = {"every": r.choice([1, 1.5, 2, 3, 5])}
        if not of_an_edit and r.random() < 0.3:
            timing["max_runs"] = r.randint(2, 9)
    elif kind == "cron":
        timing = {"cron": "* * * * *"}
    else:
        offset_s = r.uniform(1, 30) if of_an_edit else r.uniform(-5, 30)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms + int(offset_s * 1000))
        timing = {"run_at": moment}
    if r.random() < 0.4:
        timing["jitter_s"] = r.choice([0.5, 1, 4])
    return timing


def random_posting(r: random.Random, now_ms: int) -> dict[str, Any]:
    posting = random_timing(r, now_ms) | {
        "priority": r.choice(["critical", "normal", "normal", "low"]),
        "timeout_s": r.choice([4, 20]),
        "max_retries": r.randint(0, 3),
        "backoff": {"kind": "fixed", "base_s": r.choice([0.5, 3]), "jitter": 0.1},
        "misfire": r.choice(["fire_all", "fire_all", "fire_last", "skip"]),
        "misfire_grace_s": r.choice([1, 5, 60, 60]),
        "catchup_window": r.choice([5, 20, 3600, 3600]),
    }
    if r.random() < 0.15:
        posting["not_after_s"] = r.choice([3, 10])
    return posting
