"""Gaps, lateness, losses and doubles from made-up fires."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from shardwheel.bench.measure import machine
from shardwheel.bench.pauses import Spell, judge, picture, timeline
from shardwheel.bench.shards import PACE_MS, Published, dues_of, paced_entries
from shardwheel.ids import fire_id
from shardwheel.partition import partition_of
from shardwheel.wire import Fire, FireKind
from tests.unit.bench.contract import assert_contract

START_MS = 1_795_003_200_000


def published(job_id: bytes, partition: int, due_ms: int, at_ms: int, kind: int = FireKind.FIRE) -> Published:
    name = fire_id(job_id, partition, due_ms)
    return Published(Fire(1, kind, name, job_id, partition, 1, due_ms, due_ms, 1), at_ms)


def test_every_partition_has_something_due_each_50_ms() -> None:
    entries = paced_entries([3, 200], START_MS)
    assert [entry.partition for entry in entries] == [3, 3, 200, 200]
    assert all(partition_of(entry.job_id) == entry.partition for entry in entries)
    dues = dues_of(entries, START_MS + 1_000)
    for first, second in (entries[:2], entries[2:]):
        times = sorted(dues[first.job_id] + dues[second.job_id])
        assert {after - before for before, after in pairwise(times)} == {PACE_MS}


def test_a_pause_is_judged_by_partition_and_by_when_it_ended() -> None:
    first, second = paced_entries([3, 200], START_MS)[::2]
    dues = dues_of([first, second], START_MS + 1_999)
    # The first one is 800 ms late for all that was due in the second half, and then goes on.
    fires = [
        published(first.job_id, 3, due, due + 2 if due < START_MS + 1_000 else max(due, START_MS + 1_800))
        for due in dues[first.job_id]
    ]
    fires += [published(second.job_id, 200, due, due + 2) for due in dues[second.job_id]]
    found = judge(fires, dues, Spell(START_MS + 1_000, START_MS + 1_999))
    assert (found["lost"], found["skipped"], found["doubled_publishes"]) == (0, 0, 0)
    assert found["gap_max_s"] == 0.898
    assert found["gap_p50_s"] == (0.898 + 0.1) / 2
    assert found["calm_gap_max_s"] == 0.1
    assert sum(found["timeline"]) == len(fires)
    assert 0.75 < found["late_p99_s"] <= 0.8


def test_what_is_not_there_is_lost_and_what_is_there_twice_is_doubled() -> None:
    (entry, _) = paced_entries([3], START_MS)
    dues = dues_of([entry], START_MS + 999)
    fires = [published(entry.job_id, 3, due, due + 1) for due in dues[entry.job_id]]
    skip = published(entry.job_id, 3, dues[entry.job_id][4], START_MS, FireKind.SKIP)
    found = judge([*fires[:4], skip, *fires[5:], fires[2]], dues, Spell(START_MS, START_MS + 999))
    assert (found["lost"], found["skipped"], found["doubled_publishes"]) == (1, 1, 1)


def test_a_pause_counts_if_it_began_before_the_end_however_long_it_lasts_and_not_if_later() -> None:
    (entry, _) = paced_entries([3], START_MS)
    dues = dues_of([entry], START_MS + 2_999)
    fires = [published(entry.job_id, 3, due, due) for due in dues[entry.job_id]]
    within = [one for one in fires if one.at_ms <= START_MS + 900 or one.at_ms >= START_MS + 1_500]
    assert judge(within, dues, Spell(START_MS + 500, START_MS + 1_000))["gap_max_s"] == 0.6
    after = [one for one in fires if one.at_ms <= START_MS + 1_200 or one.at_ms >= START_MS + 2_000]
    assert judge(after, dues, Spell(START_MS + 500, START_MS + 1_000))["gap_max_s"] == 0.1


def test_what_is_judged_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    (entry, _) = paced_entries([3], START_MS)
    dues = dues_of([entry], START_MS + 999)
    fires = [published(entry.job_id, 3, due, due + 1) for due in dues[entry.job_id]]
    told = {"standby": 1, "machine": machine(), "partitions": 1}
    found = judge(fires, dues, Spell(START_MS + 500, START_MS + 999)) | told
    assert_contract("failover", found)
    assert_contract("move", found)
    picture(found, tmp_path / "pauses.png")
    assert (tmp_path / "pauses.png").read_bytes().startswith(b"\x89PNG")


def test_a_timeline_is_empty_while_nothing_is_fired() -> None:
    (entry, _) = paced_entries([3], START_MS)
    fires = [published(entry.job_id, 3, START_MS, START_MS + at_ms) for at_ms in (0, 50, 1_000, 60_000)]
    bars = timeline(fires, START_MS + 500)
    assert (len(bars), sum(bars)) == (100, 3)
    assert bars[15] == 2
    assert bars[25] == 1
