"""Our cron against croniter and cronsim: random expressions at random moments, and at every change of
the clocks from 2020 to 2040 in fourteen zones.

Where they differ from us, and from each other, and what is done about it here. Each of these has its
row in `KNOWN_DIFFERENCES`, so that the list stays true when an oracle changes.

Both:
1. A change of the clocks that is not a whole hour, or not at a whole hour (Lord Howe, Chatham): both go
   through the hours in whole steps and lose times. They are not asked there; the model is
   (test_cron_model.py).
2. When the day begins in a gap (Santiago, Cairo, Beirut), their search for a rhythm sets out from a
   midnight that does not exist, and they add or lose a time at 01:00. Rhythms are not compared there.

cronsim:
3. With six fields it follows elapsed time, whatever the expression; ours does with dst_gap=skip and
   dst_fold=both, so that is what it is compared with.
4. Started in the second pass of a fold it takes it for the first, and answers with a time that has been.
   Such answers are dropped.
5. It does not know `15W` (`LW` it does).

croniter:
6. In a fold it fires twice, always. It is compared with dst_fold=both.
7. Only a `*` hour is a rhythm for it: times of `*/15 2 * * *` and `0 */2 * * *` are moved to the end of a
   gap. Ours, as Vixie cron and cronsim, leaves them out. Such rhythms are compared away from changes only.
8. When day of month and day of week are both given, and one of them has `W`, `#` or `L5`, it forgets the
   other. These are not compared.
9. With six fields it no longer knows weekday 7. It gets a 0.
10. It joins `*/2` and a weekday by "or", unless told to do as Vixie cron does (`implement_cron_bug`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

import pytest
from croniter import croniter
from cronsim import CronSim, CronSimError

from shardwheel.schedule import Definition, schedule_from
from shardwheel.zone import DstFold, zone_of
from tests.property.cron_cases import ZONES, Case, all_changes, draw_case, draw_night_case, to_ms, to_time

UNEVEN_ZONES = {"Australia/Lord_Howe", "Pacific/Chatham"}
MIDNIGHT_ZONES = {"America/Santiago", "Africa/Cairo", "Asia/Beirut"}
AROUND = timedelta(hours=26)


def cronsim_times(text: str, zone: str, after: datetime) -> Iterator[int]:
    last_ms = to_ms(after)
    for time in CronSim(text, after.astimezone(zone_of(zone).info)):
        if to_ms(time) > last_ms:
            last_ms = to_ms(time)
            yield last_ms


def croniter_times(text: str, zone: str, after: datetime) -> Iterator[int]:
    text = re.sub(r" 5-7$", " 5,6,0", re.sub(r" (\d)L$", r" L\1", text)).replace("LW", "31W")
    start = after.astimezone(zone_of(zone).info)
    steps = croniter(text, start, second_at_beginning=True, implement_cron_bug=True)
    while True:
        yield int(steps.get_next(float)) * 1000


def cronsim_compares(case: Case, zone: str) -> bool:
    unknown = re.search(r"\d+W", case.text)
    return not unknown and not (case.is_rhythm and zone in UNEVEN_ZONES | MIDNIGHT_ZONES)


def croniter_compares(case: Case) -> bool:
    day, weekday = case.fields[2], case.fields[4]
    joined = day[0] != "*" and weekday[0] != "*"
    return not (joined and re.search(r"W|#|\dL", f"{day} {weekday}"))


def croniter_compares_at_changes(case: Case, zone: str) -> bool:
    rhythm_differs = case.is_rhythm and (case.fields[1] != "*" or zone in MIDNIGHT_ZONES)
    return croniter_compares(case) and zone not in UNEVEN_ZONES and not rhythm_differs


def test_at_random_moments_both_oracles_agree() -> None:
    random = Random(20261118)
    first_ms, last_ms = to_ms(datetime(1975, 1, 1, tzinfo=UTC)), to_ms(datetime(2090, 1, 1, tzinfo=UTC))
    compared = Counter[str]()
    for _ in range(2_000):
        zone, with_seconds = random.choice(ZONES), random.random() < 0.3
        case, after = (
            draw_case(random, with_seconds=with_seconds),
            to_time(random.randrange(first_ms, last_ms)),
        )
        told = (case.text, zone, after)
        if cronsim_compares(case, zone):
            schedule = case.schedule(zone, "skip", "both") if with_seconds else case.schedule(zone)
            assert schedule.next_after(to_ms(after)) == next(cronsim_times(case.text, zone, after)), told
            compared["cronsim"] += 1
        if croniter_compares(case):
            schedule = case.schedule(zone, "shift", "both")
            assert schedule.next_after(to_ms(after)) == next(croniter_times(case.text, zone, after)), told
            compared["croniter"] += 1
    assert min(compared.values()) > 1_000


def test_at_every_change_of_the_clocks_both_oracles_agree() -> None:
    random = Random(20200101)
    compared = Counter[str]()
    for zone, change in all_changes() * 2:
        case = draw_night_case(random)
        told = (case.text, zone, change)
        after, through_ms = change - AROUND, to_ms(change + AROUND)
        if cronsim_compares(case, zone):
            ours = list(case.schedule(zone).times_between(to_ms(after), through_ms))
            assert ours == _until(cronsim_times(case.text, zone, after), through_ms), told
            compared["cronsim"] += bool(ours)
        if croniter_compares_at_changes(case, zone):
            ours = list(case.schedule(zone, "shift", "both").times_between(to_ms(after), through_ms))
            assert ours == _until(croniter_times(case.text, zone, after), through_ms), told
            compared["croniter"] += bool(ours)
    assert min(compared.values()) > 300


def _until(times: Iterator[int], through_ms: int) -> list[int]:
    found = []
    for time_ms in times:
        if time_ms > through_ms:
            break
        found.append(time_ms)
    return found


class Difference(NamedTuple):
    number: int
    oracle: str
    text: str
    zone: str
    fold: DstFold
    after: str
    ours: str
    theirs: str


KNOWN_DIFFERENCES = [
    Difference(*row)
    for row in (
        # The clocks of Lord Howe go forward by half an hour, from 02:00 to 02:30: 02:52 follows.
        (
            1,
            "cronsim",
            "52 * * * *",
            "Australia/Lord_Howe",
            "first",
            "2020-10-03T15:22Z",
            "2020-10-03T15:52Z",
            "2020-10-03T16:52Z",
        ),
        # … and back by half an hour: 01:30 comes again.
        (
            1,
            "croniter",
            "12-34 1-3 * * *",
            "Australia/Lord_Howe",
            "both",
            "2030-04-06T14:34Z",
            "2030-04-06T15:00Z",
            "2030-04-06T15:42Z",
        ),
        # 27 March 2022 begins at 01:00 in Beirut, and has no hour 0.
        (
            2,
            "cronsim",
            "*/18 0 * * SUN",
            "Asia/Beirut",
            "first",
            "2022-03-26T20:30Z",
            "2022-04-02T21:00Z",
            "2022-03-26T22:00Z",
        ),
        (
            2,
            "croniter",
            "36 * 7 * *",
            "America/Santiago",
            "both",
            "2031-09-07T03:00Z",
            "2031-09-07T04:36Z",
            "2031-09-07T04:00Z",
        ),
        # 02:30 is missing: ours comes at the end of the gap.
        (
            3,
            "cronsim",
            "0 30 2 * * *",
            "Europe/Berlin",
            "first",
            "2026-03-28T12:00Z",
            "2026-03-29T01:00Z",
            "2026-03-30T00:30Z",
        ),
        # 02:30 has been; it comes again.
        (
            6,
            "croniter",
            "30 2 * * *",
            "Europe/Berlin",
            "first",
            "2026-10-25T00:30Z",
            "2026-10-26T01:30Z",
            "2026-10-25T01:30Z",
        ),
        (
            7,
            "croniter",
            "*/15 2 * * *",
            "Europe/Berlin",
            "first",
            "2026-03-28T12:00Z",
            "2026-03-30T00:00Z",
            "2026-03-29T01:00Z",
        ),
        (
            7,
            "croniter",
            "0 */2 * * *",
            "Europe/Berlin",
            "first",
            "2026-03-29T00:00Z",
            "2026-03-29T02:00Z",
            "2026-03-29T01:00Z",
        ),
        # The 15th or nearest weekday, or any Monday.
        (
            8,
            "croniter",
            "0 0 15W * MON",
            "UTC",
            "first",
            "2026-11-18T00:00Z",
            "2026-11-23T00:00Z",
            "2026-12-15T00:00Z",
        ),
    )
]


@pytest.mark.parametrize("row", KNOWN_DIFFERENCES, ids=lambda row: f"{row.number}-{row.oracle}-{row.text}")
def test_the_known_differences_are_as_told(row: Difference) -> None:
    after = datetime.fromisoformat(row.after)
    times = cronsim_times if row.oracle == "cronsim" else croniter_times
    schedule = schedule_from(Definition(cron=row.text, time_zone=row.zone, dst_fold=row.fold))
    ours, theirs = schedule.next_after(to_ms(after)), next(times(row.text, row.zone, after))
    assert ours == to_ms(datetime.fromisoformat(row.ours))
    assert theirs == to_ms(datetime.fromisoformat(row.theirs))


def test_cronsim_answers_with_a_time_that_has_been() -> None:
    second_pass = datetime(2026, 10, 25, 2, 15, fold=1, tzinfo=zone_of("Europe/Berlin").info)
    assert to_ms(next(CronSim("30 2 * * *", second_pass))) < to_ms(second_pass)


def test_cronsim_does_not_know_the_nearest_weekday() -> None:
    with pytest.raises(CronSimError):
        CronSim("0 0 15W * *", datetime(2026, 1, 1, tzinfo=UTC))


def test_croniter_does_not_know_weekday_7_with_six_fields() -> None:
    assert croniter.is_valid("0 0 * * 7")
    assert not croniter.is_valid("0 0 0 * * 7", second_at_beginning=True)


def test_croniter_joins_by_or_unless_told() -> None:
    monday, day_3 = datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC)
    assert croniter("0 0 */2 * MON", monday).get_next(datetime) == day_3
    ours = schedule_from(Definition(cron="0 0 */2 * MON")).next_after(to_ms(monday))
    assert ours == to_ms(datetime(2026, 11, 9, tzinfo=UTC))
