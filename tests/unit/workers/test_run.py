"""One attempt: its context, its time, its threads, its secrets, and what becomes of whatever it does."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.handler import Handler, Retryable
from shardwheel.metrics import ABANDONED
from shardwheel.wire import Outcome
from shardwheel.workers import run as run_module
from shardwheel.workers.context import PlainContext
from shardwheel.workers.notes import Notes
from shardwheel.workers.run import End, Running
from shardwheel.workers.threads import InThread
from tests.unit.workers.rig import ListeningStore, claimed, workshop

Function = Callable[[Any, Any], Any]


def abandoned() -> float:
    return float(ABANDONED._value.get())


async def run(function: Function, running: Running | None = None, store: Any = None, **fields: Any) -> End:
    """As a runner of the crew does it."""
    attempt = running or begin(**fields)
    handler = Handler("work", function, "short", None, inspect.iscoroutinefunction(function))
    notes = Notes(store or ListeningStore(), trio.lowlevel.current_clock().current_time)
    with trio.CancelScope() as scope:
        return await attempt.call(handler, workshop(notes, SECRET_t__key="hunter22"), scope)
    return attempt.cut_off()


def begin(**fields: Any) -> Running:
    clock = trio.lowlevel.current_clock().current_time
    return Running(claimed(1, **fields), 1_000, trio.current_time(), clock)


# --- the context ----------------------------------------------------------------------------------------


@trio_test
async def test_what_an_async_handler_knows_and_says() -> None:
    store = ListeningStore()

    async def handler(ctx: Any, params: Any) -> Any:
        ctx.progress(50, "half")
        ctx.log("plain", pages=3)
        ctx.log.error("bad")
        before = await ctx.load_checkpoint()
        await ctx.checkpoint({"page": 3})
        assert abs((ctx.deadline - datetime.now(UTC)).total_seconds() - ctx.seconds_left) < 1
        return [before, await ctx.load_checkpoint(), ctx.first_attempt, ctx.fencing_token, ctx.cancelled]

    end = await run(handler, store=store, attempt=2)
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, b'[null,{"page":3},false,2,false]')
    assert store.checkpoint == b'{"page":3}'


@trio_test
async def test_a_plain_handler_has_the_same_words_without_await() -> None:
    store = ListeningStore()

    def handler(ctx: Any, params: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        ctx.progress(50)
        ctx.log.warning("slow")
        ctx.checkpoint([1])
        return ctx.load_checkpoint()

    end = await run(handler, store=store)
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, b"[1]")


@trio_test
async def test_a_task_of_a_dag_reads_what_its_parents_left() -> None:
    async def awaits(ctx: Any, params: Any) -> Any:
        return [await ctx.inputs(), await ctx.skipped_parents()]

    def blocks(ctx: Any, params: Any) -> Any:
        return [ctx.inputs(), ctx.skipped_parents()]

    for handler in (awaits, blocks):
        end = await run(handler, store=ListeningStore())
        assert (end.outcome, end.output) == (Outcome.SUCCEEDED, b'[{"a":[1],"b":null},["b"]]')


@trio_test
async def test_the_trace_is_that_of_the_claim_or_is_made_from_the_id() -> None:
    async def handler(ctx: Any, params: Any) -> Any:
        return [ctx.trace, ctx.trace_id]

    given = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    assert (await run(handler, trace=given)).output == f'["{given}","{"a" * 32}"]'.encode()
    name = "0" * 31 + "1"
    assert (await run(handler)).output == f'["00-{name}-{name[16:]}-01","{name}"]'.encode()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
@trio_test
async def test_whatever_a_plain_handler_raises_is_its_own(error: BaseException) -> None:
    def handler(ctx: Any, params: Any) -> None:
        raise error

    end = await run(handler)
    assert (end.outcome, end.error_class) == (Outcome.FAILED, type(error).__name__)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("is_plain", [False, True])
@trio_test
async def test_what_goes_on_after_the_end_leaves_no_word(is_plain: bool, fails: bool) -> None:
    kept: list[Any] = []
    notes = Notes(ListeningStore(), trio.lowlevel.current_clock().current_time)

    def plain(ctx: Any, params: Any) -> None:
        kept.append(ctx)
        if fails:
            raise ValueError

    async def waits(ctx: Any, params: Any) -> None:
        plain(ctx, params)

    handler = Handler("work", plain if is_plain else waits, "short", None, not is_plain)
    attempt = begin()
    with trio.CancelScope() as scope:
        await attempt.call(handler, workshop(notes), scope)
    (ctx,) = kept
    ctx.log("too late")
    ctx.progress(99)
    assert not notes.has(attempt.claimed)


@trio_test
async def test_a_superseded_attempt_fails_by_name() -> None:
    store = ListeningStore()
    store.is_current = False

    async def handler(ctx: Any, params: Any) -> None:
        await ctx.checkpoint(1)

    end = await run(handler, store=store)
    assert (end.outcome, end.error_class) == (Outcome.FAILED, "Superseded")


# --- whatever it does ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("a\0", Outcome.FATAL),
        (object(), Outcome.FATAL),
        ("x" * 20_000, Outcome.FATAL),
        (3, Outcome.SUCCEEDED),
    ],
)
def test_an_output_that_can_not_be_stored_is_fatal(value: Any, outcome: Outcome) -> None:
    async def handler(ctx: Any, params: Any) -> Any:
        return value

    assert trio.run(run, handler).outcome is outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("half a pair: \ud800, a NUL: \0"), Outcome.FAILED),
        (SystemExit(3), Outcome.FAILED),
        (Retryable("later", after_s=2), Outcome.RETRYABLE),
    ],
)
def test_whatever_it_raises_is_its_own_failure_and_can_be_sent(
    error: BaseException, outcome: Outcome
) -> None:
    async def handler(ctx: Any, params: Any) -> Any:
        raise error

    end = trio.run(run, handler)
    assert end.outcome is outcome
    assert "\0" not in end.message + end.traceback
    assert (end.message + end.traceback).encode()


@trio_test
async def test_secrets_reach_the_handler_and_nothing_that_is_kept() -> None:
    async def fails(ctx: Any, params: Any) -> Any:
        raise ValueError(f"login with {params['key']} failed")

    async def returns(ctx: Any, params: Any) -> Any:
        return {"used": params["key"], "length": len(params["key"])}

    params = b'{"key": {"$secret": "key"}}'
    end = await run(fails, params=params)
    assert end.message == "login with [secret] failed"
    assert "hunter22" not in end.traceback and "[secret]" in end.traceback
    assert (await run(returns, params=params)).output == b'{"used":"[secret]","length":8}'
    missing = await run(returns, params=b'{"key": {"$secret": "other"}}')
    assert (missing.outcome, missing.error_class) == (Outcome.FAILED, "SecretError")
    assert missing.message.startswith("params.key: there is no secret 'other'")


# --- time ------------------------------------------------------------------------------------------------


def test_an_async_handler_is_cancelled_at_its_time_out_and_sees_why() -> None:
    seen: list[bool] = []

    async def handler(ctx: Any, params: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append(ctx.cancelled)

    end = trio.run(lambda: run(handler, timeout_ms=2_000), clock=MockClock(autojump_threshold=0))
    assert (end.outcome, end.message, seen) == (Outcome.TIMED_OUT, "it took longer than 2 s", [True])


@pytest.mark.parametrize(
    ("timeout_ms", "looks", "outcome"),
    [
        (4_000, True, Outcome.SUCCEEDED),
        (2_000, True, Outcome.TIMED_OUT),  # It may have stopped half-way.
        (2_000, False, Outcome.SUCCEEDED),
    ],
)
def test_what_is_returned_late_counts_unless_it_was_told_to_stop(
    timeout_ms: int, looks: bool, outcome: Outcome
) -> None:
    async def handler(ctx: Any, params: Any) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
        return "partly" if looks and ctx.cancelled else "whole"

    async def fails(ctx: Any, params: Any) -> str:
        raise ValueError(await handler(ctx, params))

    async def attempt(function: Function) -> End:
        return await run(function, timeout_ms=timeout_ms)

    assert trio.run(attempt, handler, clock=MockClock(autojump_threshold=0)).outcome is outcome
    late = trio.run(attempt, fails, clock=MockClock(autojump_threshold=0)).outcome
    assert late is (Outcome.FAILED if timeout_ms == 4_000 else Outcome.TIMED_OUT)


@trio_test
async def test_a_plain_handler_that_looks_ends_within_the_grace() -> None:
    began = threading.Event()

    def handler(ctx: Any, params: Any) -> str:
        began.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        return "partly done"

    before = abandoned()
    running = begin()
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await trio.to_thread.run_sync(began.wait)
            running.stop()

        nursery.start_soon(stop)
        end = await run(handler, running)
    assert (end.outcome, abandoned()) == (Outcome.CANCELLED, before)


@trio_test
async def test_a_plain_handler_that_does_not_look_is_given_up_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_module, "GRACE_S", 0.05)
    go, ended = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()
    store = ListeningStore()
    said: list[str] = []

    def handler(ctx: Any, params: Any) -> None:
        go.wait()
        said.append(f"cancelled {ctx.cancelled}")
        ctx.log("nobody hears this")
        token.run_sync_soon(ended.set)

    before = abandoned()
    end = await run(handler, store=store, timeout_ms=50)
    assert (end.outcome, end.message) == (Outcome.TIMED_OUT, "it took longer than 0.05 s")
    assert abandoned() == before + 1
    go.set()
    await ended.wait()
    while abandoned() != before:
        await trio.sleep(0.001)
    assert (said, store.batches) == (["cancelled True"], [])


@trio_test
async def test_who_never_got_a_thread_did_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "GRACE_S", 0.05)
    running = begin(timeout_ms=50)
    lent = workshop(threads=1)
    handler = Handler("work", lambda ctx, params: None, "short", None, False)
    async with lent.threads:
        with trio.CancelScope() as scope:
            await running.call(handler, lent, scope)
    assert running.cut_off().outcome is Outcome.RELEASED


@trio_test
async def test_a_thread_that_starts_after_it_was_given_up_does_nothing() -> None:
    called: list[Any] = []
    context = PlainContext(claimed(1), 0.0, lambda: 0.0, workshop().plain_desk)
    late = InThread(context)
    assert not late.abandon()
    before = abandoned()
    await late.run(lambda ctx, params: called.append(params), {}, trio.CapacityLimiter(1))
    assert (called, abandoned()) == ([], before)
