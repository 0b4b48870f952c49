"""A scene for jobs with parents on either store: a root with a schedule, children stored one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from shardwheel.execution import Claimed
from shardwheel.ids import text_of
from shardwheel.posting import parse_posting
from shardwheel.store.children import store_jobs
from tests.contract.dag_scene import Dag, DagScene, Deed
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import fire_of

ROOT = "root"
# The root comes first; each child after its parents.
Parents = Mapping[str, tuple[str, ...]]
DIAMOND: Parents = {"b": (ROOT,), "c": (ROOT,), "d": ("b", "c")}


class FamilyScene(DagScene):
    async def child(self, *parents: bytes, **fields: Any) -> bytes:
        body = {"task": "work", "parents": [text_of(parent) for parent in parents]} | fields
        (job_id,) = await self.rig.run(store_jobs, "t", [parse_posting(body)])
        return job_id

    async def family(
        self, parents: Parents, of_children: Mapping[str, Any] | None = None, **root: Any
    ) -> Dag:
        """A root that runs each hour, unless it is said otherwise, and its children, by their names."""
        job = await self.create(**({"every": "1h", "name": ROOT} | root))
        ids = {ROOT: job.job_id}
        for key, above in parents.items():
            ids[key] = await self.child(*(ids[one] for one in above), name=key, **(of_children or {}))
        return Dag(await self.job(job.job_id), ids)

    async def begin(self, family: Dag, at_ms: int = 0) -> Claimed:
        """The root runs, for that time of its schedule; its run has the execution's id."""
        (claimed,) = (await self.claim(fire_of(await self.job(family.job.job_id), at_ms))).claimed
        return claimed

    async def end(self, family: Dag, claimed: Claimed, deed: Deed | None = None) -> None:
        deeds = {} if deed is None else {family.keys[claimed.job_id]: deed}
        await self.store.settle([self.result(family, claimed, deeds)])

    async def has_run(self, run_id: bytes) -> bool:
        try:
            await self.run_state(run_id)
        except (KeyError, IndexError):
            return False
        return True


@asynccontextmanager
async def family_scene(rig: LoopRig) -> AsyncIterator[FamilyScene]:
    async with rig.open() as store:
        yield FamilyScene(rig, store)
