"""How one tests one's own handlers: with `shardwheel.testing`, in plain pytest functions."""

from __future__ import annotations

from typing import Any

from shardwheel import Retryable, handler
from shardwheel.testing import Scheduler

sent: list[str] = []


@handler("reminder")
def remind(ctx: Any, params: dict[str, Any]) -> None:
    if params["to"].endswith("@slow.example") and ctx.first_attempt:
        raise Retryable("later", after_s=600)
    sent.append(params["to"])


@handler("report")
async def report(ctx: Any, params: dict[str, Any]) -> int:
    return 100 // int(params["orders"])


def test_a_reminder_is_sent_each_weekday() -> None:
    scheduler = Scheduler(start="2026-11-20T00:00:00Z")  # a Friday
    scheduler.client.create_job("reminder", {"to": "a@b.c"}, cron="0 9 * * 1-5", time_zone="Europe/Berlin")
    scheduler.advance(days=4)
    assert [f"{ran.started_at:%a %H:%M} {ran.outcome}" for ran in scheduler.attempts] == [
        "Fri 08:00 succeeded",
        "Mon 08:00 succeeded",
    ]


def test_a_slow_server_is_tried_again_after_ten_minutes() -> None:
    scheduler = Scheduler()
    job = scheduler.client.enqueue("reminder", {"to": "x@slow.example"})
    scheduler.advance(minutes=9)
    assert "x@slow.example" not in sent
    run = scheduler.client.wait(job)
    assert (run.state, run.attempt) == ("succeeded", 2)


def test_a_report_without_orders_ends_in_the_dead_letters() -> None:
    scheduler = Scheduler()
    scheduler.client.enqueue("report", {"orders": 0}, max_retries=1)
    scheduler.advance(hours=1)
    (letter,) = scheduler.client.dead_letters()
    assert (letter.reason, letter.class_) == ("retries_exhausted", "ZeroDivisionError")
    again = scheduler.client.redrive(letter.id, {"orders": 4})
    assert scheduler.client.wait(again.execution_id).output == 25
