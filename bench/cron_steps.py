"""How long one step of a cron takes: ours, croniter's and cronsim's, over all expressions of the mix.

Each expression is stepped from the same moment, in a zone of the mix, as often by each of the three. Making
the iterator and its first step are not counted for anyone: a shard keeps its schedules compiled, and its
zones warm.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from croniter import croniter

from shardwheel.bench.measure import microseconds_each, repeat
from shardwheel.bench.mix import ZONES, cron_expressions
from shardwheel.errors import UsageError
from shardwheel.schedule import Definition, schedule_from

_STEPS: Final = 5
_REPEATS: Final = 3

Step = Callable[[], object]


def cron_next_us(now_ms: int) -> dict[str, float]:
    """µs of CPU time a step, by who steps."""
    crons = [(text, ZONES[place % len(ZONES)]) for place, text in enumerate(cron_expressions())]
    return {
        "ours": _us_a_step([_ours(*cron, now_ms) for cron in crons]),
        "croniter": _us_a_step([_croniter(*cron, now_ms) for cron in crons]),
        "cronsim": _us_a_step([_cronsim(*cron, now_ms) for cron in crons]),
    }


def _us_a_step(steppers: list[Step]) -> float:
    def walk() -> None:
        for step in steppers:
            for _ in range(_STEPS):
                step()

    for step in steppers:
        step()
    return repeat(_REPEATS, lambda: microseconds_each(len(steppers) * _STEPS, walk)).median


def _ours(text: str, zone: str, now_ms: int) -> Step:
    next_after = schedule_from(Definition(cron=text, time_zone=zone)).next_after
    at_ms = now_ms

    def step() -> None:
        nonlocal at_ms
        at_ms = next_after(at_ms) or now_ms

    return step


def _croniter(text: str, zone: str, now_ms: int) -> Step:
    iterator = croniter(text, _local(zone, now_ms), second_at_beginning=True)
    return lambda: iterator.get_next(datetime)


def _cronsim(text: str, zone: str, now_ms: int) -> Step:
    try:
        from cronsim import CronSim
    except ImportError as error:
        raise UsageError("the benchmark compares with cronsim: pip install 'shardwheel[dev]'") from error
    iterator = CronSim(text, _local(zone, now_ms))
    return lambda: next(iterator)


def _local(zone: str, now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms // 1000, UTC).astimezone(ZoneInfo(zone))
