"""What becomes of Celery's beat schedules, of which nothing is run."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.errors import UsageError
from shardwheel.importing.celery_beat import read_celery_beat
from shardwheel.importing.celery_dump import read_celery_dump
from shardwheel.importing.imported import Imported

NOW_MS = 1_794_900_000_000  # November 2026

FILE = """
import os
from datetime import timedelta
from celery import Celery
from celery.schedules import crontab, schedule, solar

HOUR = 60 * 60
os.remove("everything")           # never run
app = Celery("x")
app.conf.timezone = "Europe/London"
app.conf.beat_schedule = {
    "morning": {"task": "mail.digest", "schedule": crontab(minute=30, hour=7, day_of_week="mon-fri"),
                "args": (16, "a"), "options": {"queue": "fast", "expires": 15.0}},
    "often": {"task": "poll", "schedule": 30.0, "kwargs": {"deep": True}},
    "delta": {"task": "poll", "schedule": timedelta(minutes=5) + timedelta(seconds=1)},
    "hourly": {"task": "poll", "schedule": schedule(run_every=HOUR)},
    "both": {"task": "poll", "schedule": crontab(0, 0, day_of_month="1-7", day_of_week=1)},
    "sun": {"task": "poll", "schedule": solar("sunset", -37.8, 144.9)},
    "secret": {"task": os.environ["TASK"], "schedule": 10},
    **OTHERS,
}
app.conf.beat_schedule["later"] = {"task": "late", "schedule": crontab(hour=[1, 2], minute=0)}

@app.on_after_configure.connect
def setup(sender, **kwargs):
    sender.add_periodic_task(10.0, poll.s("hello"), name="every 10")
"""


def by_source(found: list[Imported]) -> dict[str, Imported]:
    return {entry.source.split(": ", 1)[-1]: entry for entry in found}


def test_a_file_is_read_and_not_run() -> None:
    found = by_source(read_celery_beat(FILE, "tasks.py", None, NOW_MS))
    morning = found["'morning'"]
    assert morning.job == {
        "task": "mail.digest",
        "name": "morning",
        "params": {"args": [16, "a"], "kwargs": {}},
        "cron": "30 7 * * mon-fri",
        "time_zone": "Europe/London",
        "not_after_s": 15.0,
    }
    assert any("queue=fast" in note for note in morning.notes)
    assert _job(found, "'often'") == {
        "task": "poll", "name": "often", "params": {"deep": True}, "every": "30s"
    }  # fmt: skip
    assert _job(found, "'delta'")["every"] == "301s" and _job(found, "'hourly'")["every"] == "3600s"
    assert _job(found, "'later'")["cron"] == "0 1,2 * * *"
    assert _job(found, "add_periodic_task")["params"] == {"args": ["hello"], "kwargs": {}}


def _job(found: dict[str, Imported], source: str) -> dict[str, Any]:
    job = found[source].job
    assert job is not None, found[source].refused
    return job


def test_what_can_not_be_known_is_said() -> None:
    found = by_source(read_celery_beat(FILE, "tasks.py", None, NOW_MS))
    assert "match both" in str(found["'both'"].refused)
    assert "solar" in str(found["'sun'"].refused)
    assert "os.environ['TASK']" in str(found["'secret'"].refused)
    assert any("**OTHERS" in str(entry.refused) for entry in found.values())
    with pytest.raises(UsageError, match="not Python"):
        read_celery_beat("beat_schedule = {", "tasks.py", None, NOW_MS)


def test_a_zone_that_is_named_there_holds() -> None:
    """`--time-zone` is of entries that name none."""
    entry = "beat_schedule = {'a': {'task': 't', 'schedule': crontab(hour=7, minute=0)}}"
    for file, zone in ((f"timezone = 'Europe/Paris'\n{entry}", "Europe/Paris"), (entry, "Asia/Tokyo")):
        (found,) = read_celery_beat(file, "celery.py", "Asia/Tokyo", NOW_MS)
        assert found.job is not None and found.job["time_zone"] == zone
    row = {"minute": "0", "hour": "4", "timezone": "Europe/Paris"}
    dump: list[Any] = [
        {"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": row},
        {
            "model": "django_celery_beat.periodictask",
            "pk": 1,
            "fields": {"name": "n", "task": "t", "crontab": 1},
        },
    ]
    (found,) = read_celery_dump(dump, "Asia/Tokyo", NOW_MS)
    assert found.job is not None and found.job["time_zone"] == "Europe/Paris"


def test_days_and_months_may_be_written_out_and_arguments_stand_in_the_signature() -> None:
    file = """
beat_schedule = {"a": {"task": "t", "schedule": crontab(
    0, 0, "Sunday,wednesday", month_of_year="january-june")}}
app.add_periodic_task(10.0, poll.s(), ("lost",))
app.add_periodic_task(10.0, poll.s(), kwargs={"also": "lost"})
"""
    written, *lost = read_celery_beat(file, "celery.py", "UTC", NOW_MS)
    assert written.job is not None and written.job["cron"] == "0 0 * jan-jun Sun,wed", written.refused
    assert ["write them as task.s(" in str(one.refused) for one in lost] == [True, True]


def test_nothing_that_an_entry_says_is_lost_in_silence() -> None:
    file = """
beat_schedule = {
    "timed": {"task": "t", "schedule": 10, "options": {"time_limit": 30, "link": None}, "tenant": "acme"},
    "off": {"task": "t", "schedule": 10, "enabled": False},
}
app.add_periodic_task(10.0, poll.s(), expires=5, headers={"a": 1})
"""
    timed, off, periodic = read_celery_beat(file, "celery.py", "UTC", NOW_MS)
    assert timed.job is not None and timed.notes == (
        "time_limit=30: has no counterpart here",
        "tenant=acme: has no counterpart here",
    )
    assert "is disabled" in str(off.refused)
    assert periodic.job is not None and periodic.job["not_after_s"] == 5
    assert "headers={'a': 1}: has no counterpart here" in periodic.notes


def test_a_dump_of_django_celery_beat() -> None:
    def row(model: str, pk: int, **fields: Any) -> dict[str, Any]:
        return {"model": f"django_celery_beat.{model}", "pk": pk, "fields": fields}

    dump = [
        row("intervalschedule", 1, every=10, period="minutes"),
        row("crontabschedule", 4, minute="0", hour="4", day_of_week="*", day_of_month="*",
            month_of_year="*", timezone="Asia/Tokyo"),
        row("clockedschedule", 2, clocked_time="2030-01-01T00:00:00Z"),
        row("solarschedule", 1, event="sunset"),
        row("periodictask", 1, name="cleanup", task="celery.backend_cleanup", crontab=4),
        row("periodictask", 2, name="poll", task="poll", interval=1, args="[]", kwargs='{"a": 1}',
            enabled=True, one_off=True),
        row("periodictask", 3, name="night", task="night", crontab=4, args="[1]", kwargs="{}"),
        row("periodictask", 4, name="once", task="once", clocked=2, args="[]", kwargs="{}"),
        row("periodictask", 5, name="off", task="off", interval=1, enabled=False),
        row("periodictask", 6, name="dusk", task="dusk", solar=1),
        row("periodictask", 7, name="lost", task="lost", interval=99),
    ]  # fmt: skip
    poll, night, once, off, dusk, lost = read_celery_dump(dump, None, NOW_MS)
    assert poll.job == {
        "task": "poll", "name": "poll", "params": {"a": 1}, "every": "600s", "max_runs": 1
    }  # fmt: skip
    assert night.job is not None and (night.job["cron"], night.job["time_zone"]) == (
        "0 4 * * *",
        "Asia/Tokyo",
    )
    assert once.job is not None and once.job["run_at"] == "2030-01-01T00:00:00Z"
    reasons = [str(entry.refused) for entry in (off, dusk, lost)]
    assert "disabled" in reasons[0] and "sun" in reasons[1] and "not in the dump" in reasons[2]
    with pytest.raises(UsageError, match="no dump"):
        read_celery_dump([{"a": 1}], None, NOW_MS)


def test_long_intervals_are_spelled_out_and_what_only_a_run_knows_is_refused() -> None:
    file = """
beat_schedule = {
    "rare": {"task": "t", "schedule": timedelta(days=30)},
    "odd": {"task": "t", "schedule": 1234567.5},
    "host": {"task": "t", "schedule": 10, "args": [socket.gethostname()]},
    "deep": {"task": "t", "schedule": 10, "kwargs": {"a": [{"b": os.getenv("B")}]}},
}
"""
    found = by_source(read_celery_beat(file, "tasks.py", "UTC", NOW_MS))
    assert _job(found, "'rare'")["every"] == "2592000s" and _job(found, "'odd'")["every"] == "1234567.5s"
    assert "socket.gethostname(…) would have to be run" in str(found["'host'"].refused)
    assert "os.getenv(…) would have to be run" in str(found["'deep'"].refused)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"every": 10, "period": "fortnights"}, "fortnights"),
        ({"every": None, "period": "days"}, "can't be read"),
        ({"every": 30, "period": "days"}, None),
    ],
)
def test_a_broken_row_of_a_dump_hides_no_other(row: dict[str, Any], words: str | None) -> None:
    dump = [
        {"model": "django_celery_beat.intervalschedule", "pk": 1, "fields": row},
        {"model": "django_celery_beat.periodictask", "pk": 1,
         "fields": {"name": "n", "task": "t", "interval": 1}},
    ]  # fmt: skip
    (found,) = read_celery_dump(dump, None, NOW_MS)
    if words is None:
        assert found.job is not None and found.job["every"] == "2592000s"
    else:
        assert words in str(found.refused)
    with pytest.raises(UsageError, match="no key"):
        read_celery_dump([{"model": "x", "pk": [1], "fields": {}}], None, NOW_MS)
