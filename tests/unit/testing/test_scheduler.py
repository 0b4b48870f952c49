"""The scheduler in memory: what a test of one's own jobs sees of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio

from shardwheel import Fatal, Retryable
from shardwheel.errors import ConflictError, NotFoundError, NotOverError, UsageError
from shardwheel.testing import Scheduler

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


async def echo(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    return params


async def slow(ctx: Any, params: dict[str, Any]) -> None:
    await trio.sleep(params["seconds"])


def plain(ctx: Any, params: dict[str, Any]) -> str:
    ctx.log("begun", attempt=ctx.attempt)
    ctx.progress(50, "half")
    done = ctx.load_checkpoint() or 0
    ctx.checkpoint(done + 1)
    if done < params["fails"]:
        raise RuntimeError("not yet")
    return f"after {done}"


async def doomed(ctx: Any, params: dict[str, Any]) -> None:
    raise Fatal("never")


HANDLERS = {"echo": echo, "slow": slow, "plain": plain, "doomed": doomed}


def outcomes(scheduler: Scheduler) -> list[str]:
    return [ran.outcome for ran in scheduler.attempts]


def test_a_cron_fires_at_its_times_in_its_zone() -> None:
    scheduler = Scheduler(HANDLERS)
    job = scheduler.client.create_job("echo", {"n": 1}, cron="0 9 * * 1-5", time_zone="Europe/Berlin")
    scheduler.advance(days=6, hours=12)
    assert [ran.started_at for ran in scheduler.attempts] == [
        MONDAY + timedelta(days=day, hours=8) for day in range(5)
    ]
    assert {(ran.outcome, str(ran.params), ran.job_id) for ran in scheduler.attempts} == {
        ("succeeded", "{'n': 1}", job.id)
    }
    assert scheduler.client.next_times(job.id, 1) == [MONDAY + timedelta(days=7, hours=8)]
    scheduler.advance_to("2026-01-12T08:00:00Z")
    assert len(scheduler.attempts) == 6 and scheduler.now == MONDAY + timedelta(days=7, hours=8)


def test_failures_are_retried_with_backoff_and_go_to_the_dead_letters() -> None:
    scheduler = Scheduler(HANDLERS)
    fine = scheduler.client.enqueue("plain", {"fails": 2}, backoff={"kind": "fixed", "base_s": 60})
    hopeless = scheduler.client.enqueue("plain", {"fails": 9}, max_retries=1)
    scheduler.client.enqueue("doomed")
    scheduler.advance(hours=1)
    run = scheduler.client.wait(fine)
    assert (run.state, run.output, [one.outcome for one in run.attempts]) == (
        "succeeded",
        "after 2",
        ["failed", "failed", "succeeded"],
    )
    assert [line.text for line in scheduler.client.logs(run.id)] == [
        f"begun attempt={number}" for number in (1, 2, 3)
    ]
    assert run.progress == {"percent": 50, "note": "half"}
    letters = {letter.task: letter for letter in scheduler.client.dead_letters()}
    assert (letters["plain"].reason, letters["doomed"].reason) == ("retries_exhausted", "fatal")
    assert letters["plain"].job_id == hopeless.id
    letter = scheduler.client.get_dead_letter(letters["plain"].id)
    assert letter.params == {"fails": 9} and "RuntimeError: not yet" in (letter.traceback or "")
    again = scheduler.client.redrive(letter.id, {"fails": 0})
    assert scheduler.client.wait(again.execution_id).succeeded
    scheduler.client.discard(letters["doomed"].id)
    assert list(scheduler.client.dead_letters()) == []
    assert len(list(scheduler.client.dead_letters(state="redriven"))) == 1


def test_a_handler_says_when_to_come_again() -> None:
    async def busy(ctx: Any, params: dict[str, Any]) -> None:
        if ctx.first_attempt:
            raise Retryable("busy", after_s=90)

    scheduler = Scheduler({"busy": busy})
    scheduler.client.enqueue("busy")
    scheduler.advance(seconds=89)
    assert outcomes(scheduler) == ["failed"]
    scheduler.advance(seconds=1)
    assert outcomes(scheduler) == ["failed", "succeeded"]


def test_how_long_a_handler_sleeps_is_how_long_it_takes() -> None:
    scheduler = Scheduler(HANDLERS)
    scheduler.client.create_job("slow", {"seconds": 25}, every="10s", overlap="skip")
    late = scheduler.client.enqueue("slow", {"seconds": 100}, timeout_s=5, max_retries=0)
    scheduler.advance(seconds=50)
    assert scheduler.client.wait(late).attempts[0].outcome == "timed_out"
    states = [one.state for one in scheduler.client.executions(task="slow", state="skipped")]
    assert len(states) == 3 and outcomes(scheduler).count("succeeded") == 1
    assert outcomes(scheduler)[-1] == "running"


def test_the_same_seed_is_the_same_story() -> None:
    def story(seed: int) -> list[Any]:
        scheduler = Scheduler(HANDLERS, seed=seed)
        scheduler.client.create_job("plain", {"fails": 1}, every="7m", jitter_s=60)
        scheduler.advance(hours=2)
        return list(scheduler.attempts)

    assert story(3) == story(3) != story(4)
    assert len(story(3)) > 30


def test_pause_edit_delete_and_what_was_missed() -> None:
    scheduler = Scheduler(HANDLERS)
    client = scheduler.client
    job = client.create_job("echo", every="1h", start_at=MONDAY + timedelta(hours=1))
    scheduler.advance(hours=2)
    client.pause_job(job.id)
    scheduler.advance(hours=3)
    assert len(scheduler.attempts) == 2
    assert client.resume_job(job.id, missed="all").backfilled == 3
    scheduler.advance(seconds=1)
    assert len(scheduler.attempts) == 5
    client.update_job(job.id, every="1d", params={"edited": True})
    scheduler.advance(days=1)
    assert [ran.params for ran in scheduler.attempts[5:]] == [{"edited": True}]
    client.delete_job(job.id)
    scheduler.advance(days=9)
    assert len(scheduler.attempts) == 6 and client.get_job(job.id).state == "deleted"
    once = client.enqueue("echo", run_at=MONDAY)
    scheduler.advance(seconds=1)
    assert client.get_execution(once.execution_id or "").state in ("succeeded", "skipped")


def test_a_job_is_completed_after_its_last_time() -> None:
    scheduler = Scheduler(HANDLERS)
    job = scheduler.client.create_job("echo", every="1m", max_runs=3)
    scheduler.advance(hours=1)
    assert len(scheduler.attempts) == 3 and scheduler.client.get_job(job.id).state == "completed"


def test_a_dag_runs_its_tasks_in_order_with_what_they_hand_on() -> None:
    async def extract(ctx: Any, params: dict[str, Any]) -> list[int]:
        return [1, 2, 3]

    async def square(ctx: Any, params: dict[str, Any]) -> int:
        return int(params["item"]) ** 2

    async def add(ctx: Any, params: dict[str, Any]) -> int:
        return sum((await ctx.inputs())["square"])

    scheduler = Scheduler({"extract": extract, "square": square, "add": add})
    tasks = [
        {"key": "extract", "task": "extract"},
        {"key": "square", "task": "square", "depends_on": ["extract"], "fan_out": True},
        {"key": "add", "task": "add", "depends_on": ["square"]},
    ]
    dag = scheduler.client.create_dag({"name": "sums", "cron": "0 2 * * *", "tasks": tasks})
    scheduler.advance(hours=3)
    (run,) = scheduler.client.dag_runs(dag.id)
    assert run.state == "succeeded"
    assert scheduler.client.get_dag_run(dag.id, run.id).task("add").output == 14
    by_hand = scheduler.client.trigger_dag(dag.id)
    assert scheduler.client.wait_dag_run(dag.id, by_hand.id, timeout=60).state == "succeeded"
    assert [ran.task for ran in scheduler.attempts][:5] == ["extract", *["square"] * 3, "add"]


def test_a_failed_task_fails_its_run() -> None:
    scheduler = Scheduler(HANDLERS)
    tasks = [
        {"key": "bad", "task": "doomed"},
        {"key": "after", "task": "echo", "depends_on": ["bad"]},
    ]
    dag = scheduler.client.create_dag({"tasks": tasks})
    begun = scheduler.client.trigger_dag(dag.id)
    run = scheduler.client.wait_dag_run(dag.id, begun.id)
    assert (run.state, run.task("bad").state, run.task("after").state) == (
        "failed",
        "dead",
        "upstream_failed",
    )


def test_what_has_no_handler_is_held_and_so_is_a_paused_task() -> None:
    scheduler = Scheduler(HANDLERS)
    scheduler.client.enqueue("unknown")
    scheduler.client.pause_task("echo")
    scheduler.client.enqueue("echo", {"n": 1})
    scheduler.advance(hours=1)
    held = {run.task: run.reason for run in scheduler.client.executions(state="held")}
    assert held == {"unknown": "handler_unknown", "echo": "task_paused"}
    scheduler.client.resume_task("echo")
    scheduler.advance(seconds=5)
    assert outcomes(scheduler) == ["succeeded"]


def test_the_client_refuses_and_remembers_as_the_real_one() -> None:
    client = Scheduler(HANDLERS).client
    with pytest.raises(UsageError) as caught:
        client.create_job("echo", cron="nonsense")
    assert caught.value.field == "cron"
    first = client.enqueue("echo", idempotency_key="k")
    assert client.enqueue("echo", idempotency_key="k").id == first.id
    with pytest.raises(ConflictError):
        client.enqueue("slow", idempotency_key="k")
    with pytest.raises(NotFoundError):
        client.get_job(first.execution_id or "")
    with pytest.raises(NotOverError):
        client.wait(client.enqueue("echo", delay=60), timeout=30)
    with pytest.raises(UsageError, match="real API"):
        list(client.shards())
    made = client.create_jobs([{"task": "echo", "tags": ["many"]} for _ in range(250)])
    assert {job.id for job in client.jobs(tag="many")} == {job.id for job in made}


def test_lists_are_filtered_as_the_api_filters_them() -> None:
    scheduler = Scheduler(HANDLERS, start=MONDAY)
    first = scheduler.client.enqueue("doomed")
    scheduler.advance(hours=1)
    scheduler.client.enqueue("doomed")
    scheduler.advance(hours=1)
    noon = MONDAY + timedelta(minutes=30)
    assert [one.job_id for one in scheduler.client.dead_letters(to=noon)] == [first.id]
    assert len(list(scheduler.client.executions(from_=noon, task="doomed"))) == 1
    assert list(scheduler.client.jobs(parent=first.id)) == []
    with pytest.raises(UsageError, match="size: is no filter"):
        scheduler.client.request("GET", "/jobs", query={"size": 3})


def test_secrets_are_revealed_and_jobs_of_ones_own_transaction_are_stored() -> None:
    scheduler = Scheduler(HANDLERS, secrets={"smtp": "p4ssw0rd"})
    scheduler.client.enqueue("echo", {"key": {"$secret": "smtp"}}, conn=None)
    job = scheduler.client.enqueue("echo", {"own": True}, conn=object())  # type: ignore[arg-type]
    scheduler.advance(seconds=1)
    assert [ran.output for ran in scheduler.attempts] == [{"key": "p4ssw0rd"}, {"own": True}]
    assert scheduler.attempts[0].params == {"key": {"$secret": "smtp"}}
    assert scheduler.client.wait(job).succeeded


def test_a_handler_may_enqueue_but_not_move_the_clock() -> None:
    def first(ctx: Any, params: dict[str, Any]) -> None:
        scheduler.client.enqueue("echo", {"from": "first"})

    def second(ctx: Any, params: dict[str, Any]) -> None:
        scheduler.advance(days=1)

    scheduler = Scheduler({"first": first, "second": second, "echo": echo})
    scheduler.client.enqueue("first")
    scheduler.client.enqueue("second", max_retries=0)
    scheduler.advance(minutes=1)
    assert outcomes(scheduler) == ["succeeded", "failed", "succeeded"]
    assert "the clock moves already" in (scheduler.attempts[1].error or "")
    with pytest.raises(UsageError, match="back"):
        scheduler.advance(seconds=-1)
    with pytest.raises(UsageError, match="over already"):
        scheduler.advance_to(MONDAY)


@pytest.mark.parametrize("before", [{"cron": "0 9 * * *"}, {"every": "90s"}])
@pytest.mark.parametrize("after", [{"cron": "0 10 * * *"}, {"every": "2m"}])
def test_a_start_that_was_said_holds_when_the_times_are_edited(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Else an edit of the hour lets a job begin today that was to begin next year."""
    client = Scheduler(start=MONDAY).client
    job = client.create_job("echo", start_at=MONDAY + timedelta(days=100), **before)
    edited = client.update_job(job.id, **after)
    assert edited.start_at == job.start_at and edited.next_at is not None and job.start_at is not None
    assert edited.next_at >= job.start_at
    assert client.update_job(job.id, run_at=MONDAY + timedelta(days=1)).start_at is None


def test_without_one_an_interval_counts_from_the_edit() -> None:
    scheduler = Scheduler(start=MONDAY)
    job = scheduler.client.create_job("echo", every="1h")
    scheduler.advance(minutes=90)
    edited = scheduler.client.update_job(job.id, every="20m")
    assert edited.next_at == MONDAY + timedelta(minutes=110)
