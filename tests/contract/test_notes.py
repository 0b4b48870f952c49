"""The contract of notes on the twin in memory and on a real PostgreSQL: fenced, bounded, and in order."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from trio.testing import MockClock, trio_test

from shardwheel.execution import Claimed, Held, LogLine, Note
from shardwheel.store.notes import read_logs
from shardwheel.store.requests import cancel_execution
from shardwheel.wire import Outcome
from tests.contract.loop_rig import LoopRig
from tests.contract.loop_scene import Scene, fire_of, result_of, scene

LIMIT = 65_536


def held(claimed: Claimed, **fields: Any) -> Held:
    return Held(claimed.execution_id, claimed.attempt, claimed.claim_token)._replace(**fields)


def note(claimed: Claimed, *texts: str, first_line: int = 1, progress: str = "", **fields: Any) -> Note:
    lines = msgspec.json.encode([(1_000, "info", text) for text in texts])
    head = (claimed.execution_id, claimed.attempt, claimed.claim_token, progress.encode())
    return Note(*head, first_line, len(texts), lines if texts else b"")._replace(**fields)


async def logs(s: Scene, claimed: Claimed, tenant: str = "t", attempt: int | None = None) -> list[LogLine]:
    return await s.rig.run(read_logs, tenant, claimed.execution_id, attempt)


async def next_attempt(s: Scene, claimed: Claimed) -> Claimed:
    """Give it back, and claim it again."""
    await s.store.settle([result_of(claimed, Outcome.RELEASED)])
    job = await s.job(claimed.job_id)
    fire = fire_of(job, claimed.scheduled_ms - job.effective_from_ms, attempt=2, schedule_no=0)
    (again,) = (await s.claim(fire)).claimed
    return again


@trio_test
async def test_progress_and_lines_are_kept_in_order(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        first, second = await s.running(job), await s.running(job, 10_000)
        await s.store.write_notes(
            [
                note(first, "a", "b", progress='{"pct": 10, "note": "x"}'),
                note(first, "c", first_line=3),
                note(second, progress='{"pct": 20, "note": ""}'),
            ],
            LIMIT,
        )
        await s.store.write_notes([note(second, 'ü\n"')], LIMIT)
        assert await rig.progress() == [{"pct": 10, "note": "x"}, {"pct": 20, "note": ""}]
        assert await logs(s, first) == [
            LogLine(1, number, 1_000, "info", text) for number, text in enumerate("abc", 1)
        ]
        assert [line.text for line in await logs(s, second)] == ['ü\n"']
        assert await logs(s, first, tenant="other") == []


@trio_test
async def test_the_same_notes_again_change_nothing(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        claimed = await s.running(await s.create(every="10s"))
        for _ in range(2):
            await s.store.write_notes([note(claimed, "a", progress="1")], LIMIT)
        assert [line.text for line in await logs(s, claimed)] == ["a"]


@trio_test
async def test_a_stale_attempt_or_token_changes_nothing(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        claimed = await s.running(await s.create(every="10s"))
        assert await s.store.store_checkpoint(held(claimed), b'{"page":1}')
        other = uuid.uuid4().bytes
        again = await next_attempt(s, claimed)
        for stale in (held(claimed), held(again, claim_token=other), held(again, attempt=1)):
            assert not await s.store.store_checkpoint(stale, b"2")
            assert await s.store.load_checkpoint(stale) is None
        for bad in (note(claimed, "old", progress="1"), note(again, "old", progress="1", claim_token=other)):
            await s.store.write_notes([bad], LIMIT)
        assert msgspec.json.decode(await s.store.load_checkpoint(held(again)) or b"") == {"page": 1}
        assert await logs(s, again) == []
        assert await rig.progress() == [None]


@trio_test
async def test_nothing_is_believed_once_it_is_settled(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        claimed = await s.running(await s.create(every="10s"))
        assert await s.store.load_checkpoint(held(claimed)) == b"null"
        await s.store.settle([result_of(claimed)])
        await s.store.write_notes([note(claimed, "late", progress="1")], LIMIT)
        assert not await s.store.store_checkpoint(held(claimed), b"1")
        assert (await logs(s, claimed), await rig.progress()) == ([], [None])


@trio_test
async def test_the_oldest_lines_are_dropped_with_a_mark(rig: LoopRig, clock: MockClock | None) -> None:
    async with scene(rig) as s:
        claimed = await s.running(await s.create(every="10s"))
        for first_line in (1, 11, 21, 31):
            await s.store.write_notes([note(claimed, *["x" * 20] * 10, first_line=first_line)], 900)
        kept = await logs(s, claimed)
        assert (kept[0].level, kept[0].number) == ("dropped", 1)
        assert kept[0].text.startswith("20 lines were dropped")
        assert [line.number for line in kept[1:]] == list(range(21, 41))


@trio_test
async def test_the_limit_is_of_the_execution_and_old_attempts_go_first(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        claimed = await s.running(await s.create(every="10s"))
        await s.store.write_notes([note(claimed, "x" * 300), note(claimed, "y" * 300, first_line=2)], 900)
        again = await next_attempt(s, claimed)
        await s.store.write_notes([note(again, "z" * 300)], 900)
        kept = [(line.attempt, line.level, line.text[0]) for line in await logs(s, again)]
        assert kept == [(1, "dropped", "1"), (1, "info", "y"), (2, "info", "z")]
        assert [line.attempt for line in await logs(s, again, attempt=2)] == [2]


@trio_test
async def test_a_worker_sees_which_of_its_own_are_asked_to_stop(
    rig: LoopRig, clock: MockClock | None
) -> None:
    async with scene(rig) as s:
        job = await s.create(every="10s")
        first, second = await s.running(job), await s.running(job, 10_000)
        assert await s.store.to_stop("w") == frozenset()
        await rig.run(cancel_execution, "t", first.execution_id)
        assert await s.store.to_stop("w") == {first.execution_id}
        assert await s.store.to_stop("somebody else") == frozenset()
        await s.store.settle([result_of(first, Outcome.CANCELLED), result_of(second)])
        assert await s.store.to_stop("w") == frozenset()
