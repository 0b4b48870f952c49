"""Zones as spans of constant offset, held to what zoneinfo says."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.resources import files
from itertools import pairwise
from random import Random

import pytest

from shardwheel.errors import UsageError
from shardwheel.times import DAY_S
from shardwheel.zone import CHUNK_S, PROBE_S, WallClock, Zone, wall_clock, wall_day, zone_names, zone_of

EPOCH_1968 = datetime(1968, 1, 1)


def explicit_changes(name: str) -> list[int]:
    """The moments since 1970 at which a zone's file changes the offset, read from the file (RFC 9636)."""
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()

    def counts(at: int) -> tuple[int, ...]:
        return struct.unpack_from(">6l", data, at + 20)

    isut, isstd, leap, times, types, chars = counts(0)
    second = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    _, _, _, times, types, _ = counts(second)
    moments = struct.unpack_from(f">{times}q", data, second + 44)
    indexes = data[second + 44 + times * 8 : second + 44 + times * 9]
    offsets = [struct.unpack_from(">l", data, second + 44 + times * 9 + 6 * i)[0] for i in range(types)]
    pairs = zip(moments[1:], indexes, indexes[1:], strict=False)
    return [at for at, old, new in pairs if at >= 0 and offsets[old] != offsets[new]]


def test_no_zone_changes_twice_between_two_probes() -> None:
    for name in zone_names():
        moments = explicit_changes(name)
        assert all(later - earlier > PROBE_S for earlier, later in pairwise(moments)), name


def test_the_spans_of_every_zone_give_the_wall_time_that_zoneinfo_gives() -> None:
    random = Random(1970)
    for name in sorted(zone_names()):
        clock, info = wall_clock(name, "skip", "both"), zone_of(name).info
        for utc_s in random.sample(explicit_changes(name), min(2, len(explicit_changes(name)))):
            for at_s in (utc_s - 1, utc_s):
                span = clock.span_at(at_s)
                wall = datetime.fromtimestamp(at_s, info).replace(tzinfo=None)
                assert EPOCH_1968 + timedelta(seconds=at_s + span.shift_s) == wall, (name, at_s)
                assert span.since_s <= at_s < span.until_s


def test_spans_meet_without_a_hole() -> None:
    clock = wall_clock("Europe/Berlin", "shift", "first")
    at_s = int(datetime(2025, 6, 1, tzinfo=UTC).timestamp())
    end_s = int(datetime(2029, 6, 1, tzinfo=UTC).timestamp())
    borders = set()
    while at_s < end_s:
        span = clock.span_at(at_s)
        assert clock.span_at(span.until_s - 1) == span
        at_s = span.until_s
        borders.add(at_s)
        assert clock.span_at(at_s).since_s == at_s
    autumn_2026 = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp())
    assert autumn_2026 in borders


class ChangesAtAChunksBorder(tzinfo):
    """A zone that goes back by an hour at the very second at which a chunk begins. No real one has so
    far."""

    BORDER_S = 56 * CHUNK_S

    def fromutc(self, dt: datetime) -> datetime:
        fold = dt.replace(tzinfo=UTC).timestamp() >= self.BORDER_S
        return (dt + timedelta(hours=0 if fold else 1)).replace(fold=fold)

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=0 if dt is not None and dt.fold else 1)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


def test_a_change_at_the_border_of_a_chunk_is_a_change_like_any_other() -> None:
    border_s = ChangesAtAChunksBorder.BORDER_S
    clock = WallClock(Zone(ChangesAtAChunksBorder()), "shift", "first")
    before, after = clock.span_at(border_s - 1), clock.span_at(border_s)
    assert (before.until_s, after.since_s) == (border_s, border_s)
    assert before.shift_s - after.shift_s == 3_600
    assert after.wall_from_s == before.wall_to_s == border_s + before.shift_s


@pytest.mark.parametrize(
    ("name", "midnight", "expected"),
    [
        ("Europe/Berlin", "2026-03-30", "2026-03-29T22:00Z"),
        ("America/Santiago", "2026-09-06", "2026-09-06T04:00Z"),  # begins at 01:00, after the gap
        ("America/Havana", "2026-11-01", "2026-11-01T04:00Z"),  # 00:00 comes twice: the first
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00Z"),  # the whole day is missing
    ],
)
def test_the_moment_a_day_begins(name: str, midnight: str, expected: str) -> None:
    day = wall_day(datetime.fromisoformat(midnight).date())
    moment = wall_clock(name, "shift", "first").utc_of(day * DAY_S)
    assert moment == datetime.fromisoformat(expected).timestamp()


@pytest.mark.parametrize("name", ["Mars/Olympus", "europe/berlin", "../zones", "", "Europe"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="time_zone: there is no zone") as refusal:
        zone_of(name)
    assert refusal.value.field == "time_zone"
