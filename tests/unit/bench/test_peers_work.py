"""The peers' work: what is due when, how lateness is counted, what a report says of who can't."""

from __future__ import annotations

from pathlib import Path

import pytest
from croniter import croniter

from shardwheel.bench.peers import answer, notes
from shardwheel.bench.peers.kept import Kept
from shardwheel.bench.peers.peer import PEERS
from shardwheel.bench.peers.run import measure_peer, peers_of
from shardwheel.bench.peers.work import (
    Once,
    Plan,
    Row,
    Size,
    dues_of,
    lateness_of,
    minutely,
    plans_of,
    rows_of,
)
from shardwheel.errors import UsageError
from tests.unit.bench.contract import assert_contract

NOW_S = 1_795_003_200


@pytest.mark.parametrize("count", [10, 1_000, 10_000, 100_000])
def test_plans_are_spread_so_that_few_are_due_in_a_second(count: int) -> None:
    plans = plans_of(count)
    assert len({plan.number for plan in plans}) == count
    assert len(dues_of(plans, NOW_S, NOW_S + plans[0].period_s)) == count
    assert count / plans[0].period_s < 30


@pytest.mark.parametrize("plan", [Plan(1, 60, 17), Plan(2, 600, 433), Plan(3, 3600, 3_599), Plan(4, 60, 0)])
def test_a_plan_and_its_cron_mean_the_same_moments(plan: Plan) -> None:
    steps = croniter(plan.cron, start_time=NOW_S + 5)
    after_s: float = NOW_S + 5
    for _ in range(4):
        after_s = plan.next_s(after_s)
        assert after_s == steps.get_next(float)
    assert plan.cron_seconds_first.split()[0] == plan.cron.split()[-1]


def test_dues_include_the_first_moment_and_exclude_the_last() -> None:
    assert dues_of(minutely(1), NOW_S, NOW_S + 120) == [Once(0, NOW_S), Once(0, NOW_S + 60)]


def test_lateness_counts_from_the_due_moment_and_what_never_started_until_the_end() -> None:
    dues = [Once(1, 100.0), Once(2, 100.0), Once(1, 160.0)]
    late = lateness_of(dues, [(1, 99.0), (1, 100.5), (1, 162.0)], end_s=200.0)
    assert late.missed == 1
    assert late.latencies.count == 3
    assert late.latencies.max_ms == 100_000.0
    assert late.latencies.percentile_ms(30) == pytest.approx(500, rel=0.02)


def test_rows_are_asked_for_by_letter() -> None:
    assert rows_of("") == ("herd", "pace", "recurring", "restart", "once", "repeated")
    assert rows_of("e,a") == ("herd", "once", "repeated")
    assert rows_of("once,b") == ("pace", "once")
    with pytest.raises(ValueError, match="'x' is no row"):
        rows_of("a,x")


def test_peers_are_asked_for_by_name() -> None:
    assert peers_of([""]) == list(PEERS)
    assert peers_of(["naive-heapq", "shardwheel"]) == ["shardwheel", "naive-heapq"]
    with pytest.raises(ValueError, match="'cron' is no peer"):
        peers_of(["cron"])


def test_a_smaller_scale_is_smaller_in_everything_but_the_pace() -> None:
    full, small = Size(), Size().scaled(0.01)
    assert (small.herd, small.recurring) == (200, (10, 100, 1_000))
    assert small.pace_per_s == full.pace_per_s
    assert full.scaled(1) == full


def test_notes_are_read_back_and_half_a_note_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes"
    monkeypatch.setenv(notes.NOTES, str(path))
    notes._file.cache_clear()
    for number in (3, 1 << 40):
        notes.started(number)
    notes._file.cache_clear()
    with path.open("ab") as file:
        file.write(b"half")
    assert [number for number, _ in notes.read_notes(path)] == [3, 1 << 40]
    assert [number for number, _ in notes.read_notes(path, skip=1)] == [1 << 40]
    assert notes.count_notes(path) == 2
    assert notes.read_notes(tmp_path / "none") == []


def test_rows_that_are_done_are_kept_unless_they_broke_or_belong_to_another_run(tmp_path: Path) -> None:
    path, of = tmp_path / "new" / "peers.rows", {"commit": "abc", "size": [1, 2]}
    kept = Kept(path, of)
    kept.add("huey", "recurring", 1_000, {"load_s": 1.5})
    kept.add("huey", "herd", 0, {"unfinished": "did not finish within 5 s: 3 of 9 started"})
    kept.add("huey", "once", 0, {"unfinished": "failed: no such table"})
    with path.open("a") as file:
        file.write('["huey pace 0", {"cut')
    again = Kept(path, of)
    assert again.find("huey", "recurring", 1_000) == {"load_s": 1.5}
    assert again.find("huey", "herd", 0) is not None
    assert again.find("huey", "once", 0) is None
    assert again.find("huey", "pace", 0) is None
    again.add("huey", "pace", 0, {"lateness_p99_ms": 7.0})
    assert Kept(path, of).find("huey", "pace", 0) == {"lateness_p99_ms": 7.0}
    with pytest.raises(UsageError, match=r"has rows of .*abc.*, this is .*abd"):
        Kept(path, of | {"commit": "abd"})
    Kept(None, of).add("huey", "pace", 0, {})


def report_of(found: dict[str, Row]) -> dict[str, object]:
    size = Size(recurring=(10, 100, 1_000))

    def measure(peer: str, row: str, count: int) -> Row:
        return found.get(f"{row} {count}" if count else row, {})

    return measure_peer("naive-heapq", rows_of(""), size, measure)


def test_an_entry_has_the_fields_of_the_contract_and_says_what_it_can_not() -> None:
    entry = report_of(
        {
            "about": {"version": "1.2", "settings": "quick", "durable": False, "cannot": {"herd": "no"}},
            "pace": {"lateness_p99_ms": 7.5},
            "recurring 10": {"load_s": 1.0, "restart_s": 2.0},
            "recurring 100": {"unfinished": "did not finish within 5 s: 3 of 100 loaded"},
            "once": {"per_s": 99.0},
            "repeated": {"unfinished": "did not finish within 5 s: 40 of 99 started", "started_per_s": 8.0},
        }
    )
    assert_contract("peers", [entry])
    assert entry["fire_per_s"] is None
    assert (entry["lateness_p99_ms"], entry["e2e_per_s"], entry["restart_s"]) == (7.5, 99.0, 2.0)
    assert entry["e2e_recurring_per_s"] == 8.0
    assert entry["recurring"] == {"10": {"load_s": 1.0, "restart_s": 2.0}, "100": None}
    assert entry["cannot"] == {
        "herd": "no",
        "recurring 100": "did not finish within 5 s: 3 of 100 loaded",
        "recurring 1000": "not tried: 100 were too many",
        "repeated": "did not finish within 5 s: 40 of 99 started",
    }


def test_the_table_tells_cannot_from_not_finished_and_from_not_asked() -> None:
    late = "did not finish within 5 s"
    cannot = {"herd": "no", "pace": late, "repeated": late}
    entry = {"cannot": cannot, "e2e_per_s": 12_345.6, "e2e_recurring_per_s": 85.0}
    assert answer.shown(entry, "fire_per_s") == "can't"
    assert answer.shown(entry, "lateness_p99_ms") == "not finished"
    assert answer.shown(entry, "restart_s") == "–"
    assert answer.shown(entry, "e2e_per_s") == "12,346"
    assert answer.shown(entry, "e2e_recurring_per_s") == "85, not finished"


def test_a_restart_with_fewer_jobs_does_not_speak_for_that_with_most() -> None:
    entry = {"cannot": {"restart 10": "did not finish within 5 s"}, "restart_s": 1.5, "restart_held": 100}
    assert answer.shown(entry, "restart_s") == "1.5"
    late = {"restart 100": "did not finish within 5 s"}
    unfinished: Row = {"cannot": late, "restart_s": None, "recurring": {"10": {}, "100": {}}}
    assert answer.shown(unfinished, "restart_s") == "not finished"


def test_loading_is_drawn_for_the_number_of_jobs_that_most_peers_held() -> None:
    one = {
        "peer": "one",
        "recurring": {"10": {"load_s": 1.0}, "100": {"load_s": 9.0}, "1000": {"load_s": 99.0}},
    }
    two = {"peer": "two", "recurring": {"10": {"load_s": 2.0}, "100": {"load_s": 20.0}, "1000": None}}
    bars = answer._loads([one, two])
    assert bars is not None
    assert bars.bars == {"one": 9.0, "two": 20.0}
    assert answer._loads([{"peer": "three", "recurring": {}}]) is None


def test_who_holds_nothing_in_memory_has_no_ratio() -> None:
    ours, other = (
        {"peer": peer, "recurring": {"10": {"bytes_per_job": held}}}
        for peer, held in (("shardwheel", 500), ("other", -3))
    )
    assert answer.ratios([ours, other]) == {}


def test_ratios_say_how_many_times_we_are_ahead() -> None:
    held = {"load_s": 2.0, "lateness_p50_ms": 1.0, "lateness_p99_ms": 30.0, "restart_s": 4.0}
    ours = {
        "peer": "shardwheel",
        "fire_per_s": 1_000.0,
        "lateness_p99_ms": 10.0,
        "restart_s": 4.0,
        "recurring": {"1000": held, "10000": held},
    }
    other = {
        "peer": "other",
        "fire_per_s": 100.0,
        "lateness_p99_ms": 5.0,
        "restart_s": 3.0,
        "recurring": {"1000": held | {"load_s": 1.0, "lateness_p99_ms": 300.0}, "10000": None},
    }
    assert answer.ratios([ours, other]) == {
        "other": {
            "herd, started/s": 10.0,
            "late p99 at 100/s, ms": 0.5,
            "load, s, 1,000 held": 0.5,
            "late p99, ms, 1,000 held": 10.0,
            "restart, s, 1,000 held": 1.0,
        }
    }
    assert answer.ahead_table([other]) == ([""], [])
    peers, rows = answer.ahead_table([ours, other])
    assert (peers, rows[0]) == (["", "other"], ["herd, started/s", "10"])
    assert answer.short_of([ours, other]) == [
        ["late p99 at 100/s, ms", "5", "other 0.5"],
        ["load, s, 1,000 held", "5", "other 0.5"],
        ["restart, s, 1,000 held", "5", "other 1"],
    ]


def test_end_to_end_it_is_enough_to_be_ahead() -> None:
    ours = {"peer": "shardwheel", "e2e_per_s": 200.0, "e2e_recurring_per_s": 90.0, "recurring": {}}
    other = {"peer": "other", "e2e_per_s": 100.0, "e2e_recurring_per_s": 100.0, "recurring": {}}
    assert answer.short_of([ours, other]) == [["recurring/s", "1", "other 0.9"]]
