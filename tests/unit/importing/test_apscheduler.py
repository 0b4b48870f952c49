"""What becomes of APScheduler's jobs: of a file, and of a dump that APScheduler 3.11 wrote."""

from __future__ import annotations

import pickle  # noqa: TID251  (to see that it is not)
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shardwheel.importing.apscheduler_cron import cron_of_fields
from shardwheel.importing.apscheduler_dump import read_apscheduler_dump
from shardwheel.importing.apscheduler_jobs import read_apscheduler
from shardwheel.importing.inert import Inert, looked_at
from shardwheel.importing.python_source import UnreadableError
from shardwheel.missed import Policy, fates
from shardwheel.posting import parse_posting
from shardwheel.times import moment_of, parse_time

NOW_MS = 1_794_900_000_000  # November 2026
DUMP = Path(__file__).with_name("apscheduler-3.11.json")


@pytest.mark.parametrize(
    ("given", "cron"),
    [
        ({"hour": 9, "day_of_week": "mon-fri"}, "0 9 * * 1,2,3,4,5"),
        ({"day_of_week": "0,6"}, "0 0 * * 0,1"),
        ({"day_of_week": "*/2", "hour": 1}, "0 1 * * 0,1,3,5"),
        ({"month": "6-8,11-12", "day": "3rd fri", "hour": "0-3"}, "0 0-3 * 6-8,11-12 5#3"),
        ({"day": "last"}, "0 0 L * *"),
        ({"day": "last sun"}, "0 0 * * 0L"),
        ({"minute": "*/15"}, "*/15 * * * *"),
        ({"second": "5"}, "5 * * * * *"),
        ({}, "0 0 1 1 *"),
    ],
)
def test_cron_fields(given: dict[str, Any], cron: str) -> None:
    assert cron_of_fields(given) == cron


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"week": "1"}, "week=1"),
        ({"year": "2030"}, "year=2030"),
        ({"day": "13", "day_of_week": "fri"}, "wants both"),
        ({"day": "1st mon,last fri"}, "two jobs"),
        ({"day_of_week": "7"}, "0 is Monday"),
        ({"day_of_week": "fri-mon"}, "two ranges"),
    ],
)
def test_cron_fields_that_can_not_be(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        cron_of_fields(given)


FILE = """
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.cron import CronTrigger
sched = BlockingScheduler(timezone="Europe/Berlin")
launch_missiles()                      # never run
sched.add_job(mail.digest, "cron", hour=9, day_of_week="mon-fri", id="digest", args=["a"])
sched.add_job("app.jobs:poll", "interval", minutes=5, max_instances=2, coalesce=False)
sched.add_job(poll, CronTrigger.from_crontab("0 9 * * 1"), id="monday there is 1")
sched.add_job(poll, "date", run_date="2030-01-01 12:00:00", misfire_grace_time=None)
sched.add_job(poll, AndTrigger([a, b]))
sched.add_job(poll, trigger=chosen())

@sched.scheduled_job("interval", hours=2, id="tidy")
def tidy():
    pass
"""


def test_a_file_is_read_and_not_run() -> None:
    digest, poll, monday, once, both, chosen, tidy = read_apscheduler(FILE, "jobs.py", None, NOW_MS)
    assert digest.job == {
        "task": "mail.digest",
        "name": "digest",
        "params": {"args": ["a"], "kwargs": {}},
        "cron": "0 9 * * 1,2,3,4,5",
        "time_zone": "Europe/Berlin",
        "overlap": "skip",
        "misfire": "fire_last",
        "catchup_window": "1s",
        "max_retries": 0,
    }
    assert poll.job is not None and (poll.job["task"], poll.job["every"]) == ("app.jobs.poll", "300s")
    assert (poll.job["overlap"], poll.job["misfire"]) == (
        "allow",
        "fire_all",
    ) and "max_instances" in poll.notes[0]
    # APScheduler does not renumber the days of a crontab: 1 is its Tuesday.
    assert monday.job is not None and monday.job["cron"] == "0 9 * * 2"
    assert once.job is not None and once.job["run_at"] == "2030-01-01T12:00:00+01:00"
    assert once.job["catchup_window"] == "30d" and "misfire_grace_time=None" in once.notes[0]
    assert both.job is None and chosen.job is None and "chosen" in str(chosen.refused)
    assert tidy.job is not None and (tidy.job["task"], tidy.job["every"]) == ("tidy", "7200s")


@pytest.mark.parametrize(
    ("given", "ran"),
    [
        ("", []),  # a second's grace, and only the last of several: all are left out
        ("misfire_grace_time=1800", ["11:00"]),
        ("misfire_grace_time=1800, coalesce=False", ["10:40", "10:50", "11:00"]),
        ("misfire_grace_time=None", ["11:00"]),
        ("misfire_grace_time=None, coalesce=False", ["10:30", "10:40", "10:50", "11:00"]),
    ],
)
def test_what_is_late_runs_or_not_as_there(given: str, ran: list[str]) -> None:
    """Nothing was fired since 10:25, and it is 11:05."""
    file = f"sched.add_job(poll, 'cron', minute='*/10', timezone='UTC', {given})"
    (found,) = read_apscheduler(file, "jobs.py", None, NOW_MS)
    assert found.job is not None, found.refused
    posting = parse_posting(found.job)
    columns, timing = posting.columns(), posting.timing(0).timing_from(0)
    policy = Policy(columns["misfire"], columns["misfire_grace_ms"], columns["catchup_window_ms"])
    first, now = (parse_time(f"2026-11-19T{at}:00Z", "") for at in ("10:25", "11:05"))
    spans = fates(timing, b"", 0, policy, first, now, now)
    times = [
        at
        for one in spans
        if one.skip_as is None
        for at in timing.times_between(one.first_ms - 1, one.until_ms - 1)
    ]
    assert [f"{moment_of(at):%H:%M}" for at in times] == ran


def test_a_grace_of_less_than_ours_is_kept_and_a_longer_one_is_a_window() -> None:
    file = "\n".join(
        f"sched.add_job(poll, 'interval', hours=1, misfire_grace_time={g})" for g in (10, 300, "'x'")
    )
    short, long, odd = read_apscheduler(file, "jobs.py", None, NOW_MS)
    assert short.job is not None and (short.job["misfire_grace_s"], short.job["catchup_window"]) == (
        10,
        "10s",
    )
    assert long.job is not None and long.job["catchup_window"] == "300s" and "misfire_grace_s" not in long.job
    assert "misfire_grace_time" in str(odd.refused)


def test_a_job_that_is_added_paused_is_not_made_and_one_to_run_at_once_says_how() -> None:
    file = """
s.add_job(poll, 'interval', hours=1, next_run_time=None)
s.add_job(poll, 'interval', hours=1, next_run_time=datetime.now())
"""
    paused, at_once = read_apscheduler(file, "jobs.py", None, NOW_MS)
    assert "is added paused" in str(paused.refused)
    assert at_once.job is not None and "shardctl job trigger" in at_once.notes[0]


def test_a_zone_that_is_named_there_holds() -> None:
    """`--time-zone` is of entries that name none."""
    named = "s = BlockingScheduler(timezone='Europe/Paris')\n"
    entry = "s.add_job(poll, 'cron', hour=9)"
    for file, zone in ((named + entry, "Europe/Paris"), (entry, "Asia/Tokyo")):
        (found,) = read_apscheduler(file, "jobs.py", "Asia/Tokyo", NOW_MS)
        assert found.job is not None and found.job["time_zone"] == zone


def test_long_intervals_are_spelled_out_and_what_only_a_run_knows_is_refused() -> None:
    file = """
sched.add_job(poll, "interval", weeks=2)
sched.add_job(poll, "interval", seconds=0.25)
sched.add_job(poll, "interval", minutes="5")
sched.add_job(poll, "interval", minutes=5, args=[connect("db")])
sched.add_job(poll, "interval", minutes=5, kwargs={"deep": {"when": datetime.now()}})
sched.add_job(poll, "date", run_date=datetime(2030, 13, 1))
"""
    long, short, text, called, deep, month = read_apscheduler(file, "jobs.py", "UTC", NOW_MS)
    assert long.job is not None and long.job["every"] == "1209600s"
    assert short.job is not None and short.job["every"] == "0.25s"
    assert "minutes: '5'" in str(text.refused) and "month" in str(month.refused)
    assert "connect(…) would have to be run" in str(called.refused)
    assert "datetime.now(…) would have to be run" in str(deep.refused)


def test_a_dump_of_apscheduler_is_read() -> None:
    found = read_apscheduler_dump(msgspec.json.decode(DUMP.read_bytes()), None, NOW_MS)
    jobs = {entry.source: entry.job for entry in found if entry.job is not None}
    crons = {source: job["cron"] for source, job in jobs.items() if "cron" in job}
    assert crons == {
        "job seconds": "*/10 * * * * *",
        "job weekdays": "0 9 * * 1,2,3,4,5",
        "job third friday": "0 0 * * 5#3",
        "job month end": "30 3 L * *",
    }
    assert {job["time_zone"] for job in jobs.values() if "cron" in job} == {"Europe/Berlin"}
    assert jobs["job no args"]["start_at"] == "2030-01-01T00:00:00+01:00"
    assert jobs["job once"]["run_at"] == "2030-01-01T12:00:00+01:00"
    assert [entry.source for entry in found if entry.job is None] == ["job both"]


class Weapon:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("it was run",))


def test_a_pickle_is_looked_at_and_never_brought_to_life(capsys: pytest.CaptureFixture[str]) -> None:
    found = looked_at(b64encode(pickle.dumps(Weapon())).decode())
    assert isinstance(found, Inert) and (found.origin, found.args) == ("builtins.print", ("it was run",))
    assert capsys.readouterr().out == ""
    for broken in ("!", "gAWV", b64encode(b"\x80\x05.").decode(), "A" * 70_000):
        with pytest.raises(UnreadableError):
            looked_at(broken)
