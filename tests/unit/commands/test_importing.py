"""`shardctl import` and `shardctl top`, on the stub of an API."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import yaml

from shardwheel.commands.importing import stored
from shardwheel.commands.job_times import shown
from shardwheel.commands.verbs import Terminal
from tests.unit.commands.conftest import Shardctl

CRONTAB = "CRON_TZ=UTC\n0 9 * * 1-5 report --daily\n@reboot serve\n"
DUMP = Path(__file__).parents[1] / "importing" / "apscheduler-3.11.json"


def test_a_dry_run_shows_what_becomes_of_each_and_makes_nothing(shardctl: Shardctl) -> None:
    answer = shardctl("import", "crontab", "-", "--dry-run", typed=CRONTAB)
    assert "line 2: would make 'report --daily': shell.run, 0 9 * * 1-5" in answer.text
    assert "line 3: can't: @reboot" in answer.text and "1 of 2 entries can be jobs" in answer.text
    assert shardctl.api.asked == []


def test_without_it_all_are_made_in_one_request(shardctl: Shardctl) -> None:
    answer = shardctl("import", "crontab", "-", "-o", "json", typed=CRONTAB)
    assert len(answer.value["created"]) == 1 and answer.value["refused"][0]["source"] == "line 3"
    (asked,) = shardctl.api.asked
    assert asked.route == "POST /jobs:batch" and asked.body[0]["idempotency_key"].startswith("import-")


class Keeping:
    """An API that keeps its word about keys, however its jobs fare."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[str, Any]] = {}

    def make_all(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for job in jobs:
            made = job | {"id": f"job {len(self.by_key)}", "state": "active"}
            self.by_key.setdefault(job["idempotency_key"], made)
        return [self.by_key[job["idempotency_key"]] for job in jobs]

    def live(self) -> list[str]:
        return [job["name"] for job in self.by_key.values() if job["state"] != "deleted"]


def test_what_was_deleted_since_is_made_anew_and_once() -> None:
    api = Keeping()
    at = cast(Terminal, SimpleNamespace(api=api))
    jobs = [{"name": name, "task": "t", "cron": "@daily"} for name in "abc"]
    assert stored(at, jobs) == stored(at, jobs) and api.live() == ["a", "b", "c"]
    for _ in range(2):
        deleted = stored(at, jobs)[1]
        deleted["state"] = "deleted"
        for _ in range(2):
            made = stored(at, jobs)
            assert [job["name"] for job in made] == ["a", "b", "c"] and made[1]["state"] == "active"
            assert sorted(api.live()) == ["a", "b", "c"]


def test_as_yaml_it_is_a_file_for_apply(shardctl: Shardctl, tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text("sched.add_job(poll, 'interval', minutes=5)\nsched.add_job(poll, chosen())\n")
    answer = shardctl("import", "apscheduler", str(file), "-o", "yaml")
    assert [job["every"] for job in yaml.safe_load(answer.text)["jobs"]] == ["300s"]
    assert "line 2" in answer.errors and shardctl.api.asked == []
    told = shardctl("import", "crontab", "-", "-o", "yaml", typed="MAILTO=ann\n" + CRONTAB).errors
    assert "line 3: note: MAILTO=ann: nobody is mailed" in told and "line 4: @reboot" in told
    assert len(yaml.safe_load(shardctl("import", "apscheduler", str(DUMP), "-o", "yaml").text)["jobs"]) == 7


def test_a_file_without_anything_is_wrong_usage(shardctl: Shardctl, tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text("x = 1")
    assert shardctl("import", "celery-beat", str(file)).code == 2
    assert shardctl("import", "celery-beat", str(tmp_path / "none.py")).code == 2


def test_top_prints_one_frame(shardctl: Shardctl) -> None:
    text = shardctl("top", "--once").text
    for words in (
        "fires/s",
        "held",
        "pools' lag",
        "oldest due",
        "host-4711-9f86d081  active  yes",
        "email.send",
    ):
        assert words in text
    frame = shardctl("top", "--once", "-o", "json").value
    assert frame["pools"] == {"short": 12} and frame["shards"][0]["leader"] is True
    shardctl.api.answers |= {f"GET /{name}": (403, "no") for name in ("shards", "partitions", "pools")}
    assert shardctl("top", "--once", "-o", "json").value["shards"] is None


def test_top_does_not_pass_a_page_for_all(shardctl: Shardctl) -> None:
    """What runs for hours is none of the latest; and of more than a page it says so."""
    page = shardctl("execution", "list", "-o", "json").value
    many = {"items": [page["items"][0] | {"state": "held", "reason": "rate_limit"}] * 200, "next_cursor": "x"}
    shardctl.api.answers["GET /executions"] = many
    text = shardctl("top", "--once").text
    assert "200 or more" in text and "at least: rate_limit 200" in text
    asked = [one.query.get("state") for one in shardctl.api.asked if one.route == "GET /executions"]
    assert asked[1:] == [None, "running", "held"]


def test_days_on_which_the_clocks_change_are_marked() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    winter = shown(datetime(2026, 10, 25, 8, tzinfo=UTC), berlin)
    assert (winter["local"], winter["clocks"]) == (
        "Sun 2026-10-25 09:00:00+01:00",
        "clocks go back 60 min",
    )
    assert shown(datetime(2026, 3, 29, 7, tzinfo=UTC), berlin)["clocks"] == "clocks go forward 60 min"
    assert shown(datetime(2026, 3, 30, 7, tzinfo=UTC), berlin)["clocks"] is None


def test_bulk_verbs_count_ask_and_leave_out_what_changed_meanwhile(shardctl: Shardctl) -> None:
    refused = shardctl("job", "pause", "--all", typed="n\n")
    assert refused.code == 4 and "Pause 1 jobs?" in refused.errors and "email.send" in refused.errors
    assert "POST /jobs/{id}:pause" not in shardctl.api.names()
    shardctl.api.answers["POST /jobs/{id}:pause"] = (409, "it is over")
    answer = shardctl("job", "pause", "--filter", "tag=a", "--yes", "-o", "json")
    assert (answer.code, answer.value) == (4, {"paused": 0, "refused": {"it is over": 1}})
    for line in ("job pause", "job pause 1 --all", "job delete --filter size=1", "job delete --filter task="):
        assert shardctl(*line.split()).code == 2


def test_a_store_of_pickles_is_refused_unread(shardctl: Shardctl, tmp_path: Path) -> None:
    """Whatever it holds: it is never brought to life."""
    store = tmp_path / "jobs.sqlite"
    store.write_bytes(b"SQLite format 3\x00\x80\x04\x95cos\nsystem\n(S'touch owned'\ntR.")
    for source in ("apscheduler", "celery-beat", "crontab"):
        answer = shardctl("import", source, str(store), "--dry-run")
        assert answer.code == 2 and "is no text" in answer.errors
    absent = shardctl("import", "crontab", str(tmp_path / "absent"), "--dry-run")
    assert absent.code == 2 and "can't be read (No such file or directory)" in absent.errors
