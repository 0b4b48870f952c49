"""How long one step of a cron takes: ours, croniter's and cronsim's, over all expressions of the mix.

Each expression is stepped a few times from the same moment, in a zone of the mix; making the iterator is
not counted for anyone, as a shard keeps its schedules compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from croniter import croniter

from shardwheel.bench.measure import microseconds_each
from shardwheel.bench.mix import ZONES, cron_expressions
from shardwheel.errors import UsageError
from shardwheel.schedule import Definition, schedule_from

_OUR_STEPS: Final = 50
_THEIR_STEPS: Final = 3

Step = Callable[[], object]


def cron_next_us(now_ms: int) -> dict[str, float]:
    """µs a step, by who steps."""
    crons = [(text, ZONES[place % len(ZONES)]) for place, text in enumerate(cron_expressions())]
    return {
        "ours": _us_a_step([_ours(*cron, now_ms) for cron in crons], _OUR_STEPS),
        "croniter": _us_a_step([_croniter(*cron, now_ms) for cron in crons], _THEIR_STEPS),
        "cronsim": _us_a_step([_cronsim(*cron, now_ms) for cron in crons], _THEIR_STEPS),
    }


def _us_a_step(steppers: list[Step], steps: int) -> float:
    def walk() -> None:
        for step in steppers:
            for _ in range(steps):
                step()

    return microseconds_each(len(steppers) * steps, walk)


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
