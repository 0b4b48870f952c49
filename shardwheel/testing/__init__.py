"""A scheduler in memory with a clock that your test moves: for tests of your own handlers and jobs.

    from shardwheel.testing import Scheduler

    def test_a_reminder_is_sent_each_weekday() -> None:
        scheduler = Scheduler(start="2026-11-20T00:00:00Z")                 # a Friday
        scheduler.client.create_job("reminder", {"to": "a@b.c"}, cron="0 9 * * 1-5")
        scheduler.advance(days=4)
        assert [ran.outcome for ran in scheduler.attempts] == ["succeeded", "succeeded"]

No servers, no threads, no sleeps, and the same every time. What decides is the code of production: schedules,
the claim, retries, dead letters and DAGs; only the tables below it and the clock are in memory. `client` is a
`Client`: whatever of yours takes one can be given this.
"""

from __future__ import annotations

from shardwheel.testing.attempts import Attempt
from shardwheel.testing.scheduler import Scheduler

__all__ = ["Attempt", "Scheduler"]
