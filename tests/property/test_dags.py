"""Random DAGs in memory against an interpreter of a few lines: shapes, failures, policies, hands."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from shardwheel.store.dag_hands import force_complete, rerun, skip_task
from shardwheel.wire import Outcome
from tests.contract.dag_scene import Dag, DagScene, Deed, Shape, dag_scene
from tests.contract.loop_rig import MemoryLoopRig

FAILED = {"dead", "upstream_failed"}
SKIPPED = {"skipped_with_children", "upstream_skipped"}
ROUNDS = 2


class Case(NamedTuple):
    """`items`: how long the list is that each task gives to those that fan out from it; `hands`: what
    somebody did to tasks before anything ran."""

    shape: Shape
    deeds: dict[str, str]
    items: dict[str, int]
    hands: dict[str, str]
    batch: int

    def times(self, key: str) -> int:
        """How many items a task has; 1 for one that does not fan out."""
        if key not in self.shape.fans:
            return 1
        (parent,) = self.shape.parents[key]
        return self.times(parent) if parent in self.shape.fans else self.items[parent]

    def tries(self, stand: str) -> int:
        """How often what became this ran: what dies runs again in each round of policy retry."""
        return 1 + ROUNDS * (self.shape.policy == "retry" and stand == "dead")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 9))
    keys = [f"t{number}" for number in range(count)]
    parents = {
        key: tuple(draw(st.sets(st.sampled_from(keys[:number]), max_size=4))) if number else ()
        for number, key in enumerate(keys)
    }
    lone = [key for key in keys if len(parents[key]) == 1]
    fans = frozenset(draw(st.sets(st.sampled_from(lone), max_size=3))) if lone else frozenset()
    shape = Shape(parents, fans, draw(st.sampled_from(["fail_fast", "continue", "retry"])))
    sources = {parents[key][0] for key in fans}
    hands = st.sampled_from(["", "", "", "force_completed", "skipped_by_hand", "skipped_with_children"])
    return Case(
        shape,
        {key: draw(st.sampled_from(["succeeded", "succeeded", "succeeded", "dead"])) for key in keys},
        {key: draw(st.integers(0, 3)) for key in keys},
        {key: hand for key in keys if key not in sources and (hand := draw(hands))},
        draw(st.integers(1, 4)) if shape.policy != "fail_fast" else 1_000,
    )


def interpret(case: Case, deeds: dict[str, str]) -> dict[str, str]:
    """What becomes of each task, if all that is ready runs at once."""
    parents, stands = case.shape.parents, dict(case.hands)
    while ready := [key for key in parents if key not in stands and all(p in stands for p in parents[key])]:
        words = {key: {stands[parent] for parent in parents[key]} for key in ready}
        can_not = {key: "upstream_failed" for key in ready if words[key] & FAILED}
        can_not |= {key: "upstream_skipped" for key in ready if words[key] & SKIPPED and key not in can_not}
        empty = {key: "succeeded" for key in ready if key not in can_not and not case.times(key)}
        stands |= can_not | empty or {key: deeds[key] for key in ready}
        if case.shape.policy == "fail_fast" and "dead" in stands.values():
            return stands | {
                key: "upstream_failed" if reaches(case, stands, key) else "run_failed"
                for key in parents
                if key not in stands
            }
    return stands


def reaches(case: Case, stands: dict[str, str], key: str) -> bool:
    """Whether it follows from a task that died."""
    return any(
        stands.get(parent) == "dead" or reaches(case, stands, parent) for parent in case.shape.parents[key]
    )


def outcome(case: Case, stands: dict[str, str]) -> str:
    succeeded = sum(stand in ("succeeded", "force_completed") for stand in stands.values())
    if succeeded == len(stands):
        return "succeeded"
    return (
        "failed"
        if not succeeded or (case.shape.policy == "fail_fast" and "dead" in stands.values())
        else "partial"
    )


@given(cases())
@settings(max_examples=300)
def test_a_run_becomes_what_the_interpreter_says(case: Case) -> None:
    trio.run(check, case, clock=MockClock(autojump_threshold=0))


async def check(case: Case) -> None:
    async with dag_scene(MemoryLoopRig()) as s:
        dag = await s.plant(case.shape, max_retries=ROUNDS)
        run_id = await s.start(dag)
        for key, hand in case.hands.items():
            if hand == "force_completed":
                await s.hand(force_complete, run_id, key)
            else:
                await s.hand(skip_task, run_id, key, "run" if hand == "skipped_by_hand" else "skip")
        ran = await play(s, case, dag, case.deeds)
        stands = interpret(case, case.deeds)
        await agree(s, case, dag, run_id, stands)
        assert ran == Counter(
            {key: case.times(key) * case.tries(end) for key, end in stands.items() if is_run(case, key, end)}
        )
        if "dead" in stands.values():
            await s.hand(rerun, run_id)
            well = dict.fromkeys(case.deeds, "succeeded")
            again = await play(s, case, dag, well)
            await agree(s, case, dag, run_id, interpret(case, well))
            assert not [key for key in again if stands[key] == "succeeded"]


def is_run(case: Case, key: str, stand: str) -> bool:
    return key not in case.hands and stand in ("succeeded", "dead") and case.times(key) > 0


async def play(s: DagScene, case: Case, dag: Dag, deeds: dict[str, str]) -> Counter[str]:
    """Until nothing waits; how often each ran. In small batches, where their order means nothing."""
    done: dict[str, Deed] = {
        key: Outcome.FATAL if deed == "dead" else (Outcome.SUCCEEDED, list(range(case.items[key])))
        for key, deed in deeds.items()
    }
    ran: Counter[str] = Counter()
    while claimed := await s.claim_waiting():
        ran.update(dag.keys[one.job_id] for one in claimed)
        results = [s.result(dag, one, done) for one in claimed]
        for first in range(0, len(results), case.batch):
            await s.store.settle(results[first : first + case.batch])
    return ran


async def agree(s: DagScene, case: Case, dag: Dag, run_id: bytes, stands: dict[str, str]) -> None:
    tasks = await s.tasks(dag, run_id)
    assert {key: state for key, state in tasks.items() if "[" not in key} == stands
    state, unfinished, *_ = await s.run_state(run_id)
    assert (state, unfinished) == (outcome(case, stands), 0)
