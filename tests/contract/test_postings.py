"""The contract of posted jobs, on the twin in memory and on a real PostgreSQL: keys, and reading back."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock, trio_test

from shardwheel.errors import ConflictError
from shardwheel.posting import parse_posting
from shardwheel.store.audit import Actor
from shardwheel.store.creation import Found, Wish, create_all, read_jobs
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import scene


async def created(rig: LoopRig, *postings: dict[str, Any]) -> list[Found]:
    wishes = [Wish(parse_posting(posting), Actor("ann", "admin")) for posting in postings]
    return await rig.run(create_all, "t", wishes)


@trio_test
async def test_a_key_finds_what_it_made(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig):
        first, plain = await created(rig, {"task": "a", "idempotency_key": "k"}, {"task": "a"})
        (again,) = await created(rig, {"task": "a", "idempotency_key": "k"})
        assert again.job == first.job != plain.job
        with pytest.raises(ConflictError):
            await created(rig, {"task": "b"}, {"task": "b", "idempotency_key": "k"})


@trio_test
async def test_keys_that_come_together(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig):
        a, b = ({"task": "a", "idempotency_key": key} for key in "ab")
        (known,) = await created(rig, b)
        first, second, twice, plain = await created(rig, a, b, a, {"task": "a"})
        assert first.job == twice.job and second.job == known.job
        assert len({one.job.job_id for one in (first, second, plain)}) == 3
        with pytest.raises(ConflictError):
            await created(rig, {"task": "c", "idempotency_key": "c"}, {"task": "b", "idempotency_key": "a"})
        (again,) = await created(rig, {"task": "d", "idempotency_key": "c"})
        assert again.job.task == "d"  # What was refused has taken no key.


@trio_test
async def test_jobs_are_read_back_in_the_order_of_their_ids(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig):
        fields = {"params": {"x": [1]}, "tags": ["t"], "cron": "0 9 * * *", "time_zone": "Europe/Berlin"}
        made = await created(rig, {"task": "a"} | fields, {"task": "b", "every": "90s"})
        ids = [found.job.job_id for found in made]
        found = await rig.run(read_jobs, "t", [ids[1], bytes(16), ids[0]])
        assert [one and one.job for one in found] == [made[1].job, None, made[0].job]
        assert await rig.run(read_jobs, "other", ids) == [None, None]
        assert made[0].as_read()["cron"] == "0 9 * * *" and made[1].as_read()["every"] == "90s"
