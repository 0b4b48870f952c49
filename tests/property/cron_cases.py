"""Random cron expressions together with what they mean, and a slow model that takes them at their word.

An expression is drawn as data (sets of minutes, rules for days), and its text is written from that: so
the model below never parses, and shares no code with what it checks. The model walks wall time a minute
at a time and asks `zoneinfo` about each: far too slow to run, and too simple to be wrong.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from random import Random

import pytest

from shardwheel.errors import UsageError
from shardwheel.schedule import CronSchedule, Definition, schedule_from
from shardwheel.zone import DstFold, DstGap, Zone, zone_of

ZONES = (
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Santiago",  # the gap is at midnight: some days begin at 01:00
    "America/St_Johns",  # half an hour off
    "America/Sao_Paulo",  # no more changes
    "Africa/Cairo",  # changes at midnight, on a Thursday night, anew since 2023
    "Africa/Casablanca",  # summer time is the rule, Ramadan the exception
    "Asia/Beirut",  # the gap is at midnight
    "Australia/Lord_Howe",  # half an hour of daylight saving
    "Australia/Sydney",
    "Pacific/Auckland",
    "Pacific/Chatham",  # three quarters of an hour off; changes at 02:45
    "UTC",
)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_TWENTY_EIGHT_YEARS = range(date(2001, 1, 1).toordinal(), date(2029, 1, 1).toordinal())

DayRule = Callable[[date], bool]
Numbers = tuple[str, frozenset[int]]

NO_SECONDS: Numbers = ("", frozenset({0}))
# Wholes and parts of the night in which clocks are changed.
NIGHTS: list[Numbers] = [
    ("2", frozenset({2})),
    ("0", frozenset({0})),
    ("0,1", frozenset({0, 1})),
    ("1-3", frozenset({1, 2, 3})),
    ("*/2", frozenset(range(0, 24, 2))),
    ("*", frozenset(range(24))),
]


@dataclass(frozen=True)
class Case:
    """An expression as text and as meaning. `days` says which dates match."""

    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    days: DayRule

    @property
    def fields(self) -> list[str]:
        return self.text.split()[-5:]

    @property
    def is_rhythm(self) -> bool:
        """A star at the start of minute or hour: dst_gap and dst_fold leave it alone."""
        return self.fields[0].startswith("*") or self.fields[1].startswith("*")

    def matches_date(self, day: date) -> bool:
        return day.month in self.months and self.days(day)

    def matches(self, wall: datetime) -> bool:
        in_minute = wall.minute in self.minutes and wall.second in self.seconds
        return in_minute and wall.hour in self.hours and self.matches_date(wall.date())

    def schedule(self, zone: str, gap: DstGap = "shift", fold: DstFold = "first") -> CronSchedule:
        schedule = schedule_from(Definition(cron=self.text, time_zone=zone, dst_gap=gap, dst_fold=fold))
        assert isinstance(schedule, CronSchedule)
        return schedule


# --- Drawing an expression ----------------------------------------------------------------------------


def draw_case(random: Random, *, with_seconds: bool = False) -> Case:
    """An expression that fires. One that never does is drawn again, once the model agrees that it never
    does: dates and weekdays come round in 28 years."""
    while True:
        minutes, hours = draw_numbers(random, 0, 59), draw_numbers(random, 0, 23)
        seconds = draw_numbers(random, 0, 59) if with_seconds else NO_SECONDS
        case = make_case(
            seconds, minutes, hours, draw_days(random), draw_months(random), draw_weekdays(random)
        )
        if any(case.matches_date(date.fromordinal(day)) for day in _TWENTY_EIGHT_YEARS):
            return case
        with pytest.raises(UsageError, match="never fires"):
            case.schedule("UTC")


def draw_night_case(random: Random) -> Case:
    """An expression for the night in which clocks are changed: on every day mostly, at few times."""
    minutes, hours = draw_numbers(random, 0, 59), random.choice(NIGHTS)
    while len(minutes[1]) * len(hours[1]) > 40:
        minutes = draw_numbers(random, 0, 59)
    every_day: tuple[str, DayRule] = ("*", lambda day: True)
    days = draw_days(random) if random.random() < 0.2 else every_day
    weekdays = draw_weekdays(random) if random.random() < 0.2 else every_day
    return make_case(NO_SECONDS, minutes, hours, days, ("*", frozenset(range(1, 13))), weekdays)


def make_case(
    seconds: Numbers,
    minutes: Numbers,
    hours: Numbers,
    days: tuple[str, DayRule],
    months: Numbers,
    weekdays: tuple[str, DayRule],
) -> Case:
    texts = (part[0] for part in (seconds, minutes, hours, days, months, weekdays))
    rule = join_days(*days, *weekdays)
    return Case(" ".join(texts).strip(), seconds[1], minutes[1], hours[1], months[1], rule)


def join_days(day_text: str, by_day: DayRule, weekday_text: str, by_weekday: DayRule) -> DayRule:
    if day_text[0] in "*?" or weekday_text[0] in "*?":
        return lambda day: by_day(day) and by_weekday(day)
    return lambda day: by_day(day) or by_weekday(day)


def draw_numbers(random: Random, low: int, high: int) -> Numbers:
    kind = random.randrange(6)
    first, second = sorted(random.sample(range(low, high + 1), 2))
    step = random.randint(2, max(2, (high - low) // 2))
    if kind == 0:
        return "*", frozenset(range(low, high + 1))
    if kind == 1:
        return f"*/{step}", frozenset(range(low, high + 1, step))
    if kind == 2:
        return f"{first}-{second}", frozenset(range(first, second + 1))
    if kind == 3:
        return f"{first}-{second}/{step}", frozenset(range(first, second + 1, step))
    if kind == 4:
        return f"{first},{second}", frozenset({first, second})
    return str(first), frozenset({first})


def draw_months(random: Random) -> Numbers:
    if random.random() < 0.6:
        return "*", frozenset(range(1, 13))
    if random.random() < 0.3:
        month = random.randint(1, 12)
        return MONTHS[month - 1], frozenset({month})
    return draw_numbers(random, 1, 12)


def draw_days(random: Random) -> tuple[str, DayRule]:
    kind = random.random()
    if kind < 0.45:
        return "*", lambda day: True
    if kind < 0.75:
        # Days that every month has, so that each drawn expression fires.
        text, days = draw_numbers(random, 1, 28)
        limit = {*days, *range(1, 32, int(text[2:]))} if text.startswith("*/") else days
        return text, (lambda day: True) if text == "*" else (lambda day: day.day in limit)
    if kind < 0.83:
        return "L", lambda day: day.day == month_length(day)
    if kind < 0.88:
        return "LW", lambda day: day == nearest_weekday(day, 31)
    target = random.randint(1, 31)
    return f"{target}W", lambda day: day == nearest_weekday(day, target)


def draw_weekdays(random: Random) -> tuple[str, DayRule]:
    kind = random.random()
    if kind < 0.5:
        return "*", lambda day: True
    weekday = random.randrange(7)
    if kind < 0.6:
        return WEEKDAYS[weekday], lambda day: day.isoweekday() % 7 == weekday
    if kind < 0.7:
        return "MON-FRI", lambda day: day.isoweekday() <= 5
    if kind < 0.75:
        return "5-7", lambda day: day.isoweekday() >= 5
    if kind < 0.85:
        nth = random.randint(1, 4)
        return (
            f"{weekday}#{nth}",
            lambda day: day.isoweekday() % 7 == weekday and (day.day - 1) // 7 + 1 == nth,
        )
    if kind < 0.95:
        return f"{weekday}L", lambda day: day.isoweekday() % 7 == weekday and day.day + 7 > month_length(day)
    step = random.randint(2, 3)
    return f"*/{step}", lambda day: day.isoweekday() % 7 % step == 0


def month_length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def nearest_weekday(day: date, target: int) -> date:
    """Of this day's month, the weekday nearest to the target: looked for outwards, day by day."""
    length = month_length(day)
    aim = min(target, length)
    for distance in (0, -1, 1, -2, 2):
        candidate = aim + distance
        if 1 <= candidate <= length and date(day.year, day.month, candidate).weekday() < 5:
            return date(day.year, day.month, candidate)
    raise AssertionError("every five days hold a weekday")


# --- The model ----------------------------------------------------------------------------------------


def model_times(
    case: Case, zone: str, gap: DstGap, fold: DstFold, after: datetime, through: datetime
) -> list[int]:
    """Every time with after < time <= through, in ms, by asking `zoneinfo` about every minute."""
    found: set[datetime] = set()
    for wall in walls(case, after, through):
        found.update(
            instants(wall, zone, "skip" if case.is_rhythm else gap, "both" if case.is_rhythm else fold)
        )
    return sorted(to_ms(time) for time in found if after < time <= through)


def walls(case: Case, after: datetime, through: datetime) -> Iterator[datetime]:
    """The matching wall times around these moments, whatever the zone."""
    day = after.date() - timedelta(days=2)
    while day <= through.date() + timedelta(days=2):
        if case.matches_date(day):
            for hour in sorted(case.hours):
                for minute in sorted(case.minutes):
                    for second in sorted(case.seconds):
                        yield datetime(day.year, day.month, day.day, hour, minute, second)
        day += timedelta(days=1)


def instants(wall: datetime, zone: str, gap: DstGap, fold: DstFold) -> list[datetime]:
    info = zone_of(zone).info
    first = wall.replace(tzinfo=info, fold=0).astimezone(UTC)
    last = wall.replace(tzinfo=info, fold=1).astimezone(UTC)
    if first.astimezone(info).replace(tzinfo=None) != wall:  # nobody's clock shows this time
        return instants(gap_end(wall, zone), zone, gap, fold)[:1] if gap == "shift" else []
    return {"first": [first], "last": [last], "both": [first, last]}[fold]


def gap_end(wall: datetime, zone: str) -> datetime:
    info = zone_of(zone).info
    wall = wall.replace(second=0)
    while wall.replace(tzinfo=info).astimezone(UTC).astimezone(info).replace(tzinfo=None) != wall:
        wall += timedelta(minutes=1)
    return wall


def to_ms(time: datetime) -> int:
    return int(time.timestamp()) * 1000


def to_time(time_ms: int, zone: str = "UTC") -> datetime:
    return datetime.fromtimestamp(time_ms // 1000, zone_of(zone).info)


@cache
def all_changes() -> list[tuple[str, datetime]]:
    """Every change of an offset from 2020 to 2040 in our zones, by asking `zoneinfo` about every day."""
    return [(zone, to_time(at_s * 1000)) for zone in ZONES for at_s in _changes(zone_of(zone))]


def _changes(zone: Zone) -> Iterator[int]:
    first, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)
    for day_s in range(int(first.timestamp()), int(end.timestamp()), 86_400):
        before_s = zone.shift_at(day_s)
        if before_s != zone.shift_at(day_s + 86_400):
            quarters = range(day_s, day_s + 86_401, 900)
            yield next(at_s for at_s in quarters if zone.shift_at(at_s) != before_s)
