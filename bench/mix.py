"""The mix: the jobs that every benchmark uses, the same ones for the same seed.

60% cron (520 expressions × 20 zones), 20% every, 20% once. Within that, how often jobs fire is chosen so
that all of them together fire `rate_per_s` times a second: half of it comes from crons that fire every
minute, each at a second of its own, the rest from intervals; all other crons are hourly to monthly and on
the minute, as people write them, so that the top of a minute is busier than its middle.

Schedules are drawn from a pool, since a real table repeats itself too: jobs with the same schedule share
one object in a shard. Jobs are spread over the interval with `start_at`; onces over the next day.

    for job in mix(count=1_000, now_ms=1_793_000_000_000, rate_per_s=6.0):
        job.id          # 16 random bytes
        job.fields      # {"task": "bench.noop", "cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin"}
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

TASK: Final = "bench.noop"
# What "every few minutes" comes to: 333,000 jobs fire 2,000 times a second.
NATURAL_RATE_PER_JOB_S: Final = 2_000 / 333_000

ZONES: Final = (
    "UTC",
    "Africa/Cairo",
    "Africa/Johannesburg",
    "America/Chicago",
    "America/Los_Angeles",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "Asia/Dubai",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Madrid",
    "Pacific/Auckland",
    "Pacific/Chatham",
)

_CRON_SHARE: Final = 0.6
_EVERY_SHARE: Final = 0.2
# Intervals are these multiples of one another, so that a pool of 16 schedules serves all of them.
_INTERVAL_FACTORS: Final = tuple(0.5 + step / 15 for step in range(16))
_SHORTEST_INTERVAL_S: Final = 0.1
_ONCES_WITHIN_MS: Final = 86_400_000


class MixedJob(NamedTuple):
    """A job's id, and its fields as they are posted."""

    id: bytes
    fields: dict[str, Any]


def mix(count: int, now_ms: int, rate_per_s: float | None = None, seed: int = 1) -> Iterator[MixedJob]:
    """So many jobs that fire so often together, or as often as such jobs do."""
    dice = random.Random(seed)
    rate_per_s = count * NATURAL_RATE_PER_JOB_S if rate_per_s is None else rate_per_s
    minutely_share, interval_s = _pace(count, rate_per_s)
    for _ in range(count):
        kind = dice.random()
        if kind < _CRON_SHARE:
            fields = _cron(dice, minutely_share)
        elif kind < _CRON_SHARE + _EVERY_SHARE:
            fields = _every(dice, interval_s, now_ms)
        else:
            fields = {"run_at": _iso(now_ms + 1 + dice.randrange(_ONCES_WITHIN_MS))}
        yield MixedJob(dice.randbytes(16), {"task": TASK, **fields})


def cron_expressions() -> list[str]:
    """All expressions of the mix, the minutely ones first."""
    return [*_MINUTELY, *_RARE]


def _pace(count: int, rate_per_s: float) -> tuple[float, float]:
    """Which share of the crons fires every minute, and how long an interval is on average."""
    crons = max(1.0, count * _CRON_SHARE)
    minutely = min(rate_per_s / 2 * 60, crons / 2)
    every_rate_per_s = max(rate_per_s - minutely / 60, rate_per_s / 2)
    # A job of interval f × i fires 1 / (f × i) times a second: the mean of 1 / f corrects for it.
    correction = sum(1 / factor for factor in _INTERVAL_FACTORS) / len(_INTERVAL_FACTORS)
    interval_s = max(1.0, count * _EVERY_SHARE) / every_rate_per_s * correction
    return minutely / crons, max(interval_s, _SHORTEST_INTERVAL_S / _INTERVAL_FACTORS[0])


def _cron(dice: random.Random, minutely_share: float) -> dict[str, Any]:
    pool = _MINUTELY if dice.random() < minutely_share else _RARE
    return {"cron": dice.choice(pool), "time_zone": dice.choice(ZONES)}


def _every(dice: random.Random, interval_s: float, now_ms: int) -> dict[str, Any]:
    every_ms = round(interval_s * dice.choice(_INTERVAL_FACTORS) * 1000)
    return {"every": f"{every_ms}ms", "start_at": _iso(now_ms + 1 + dice.randrange(every_ms))}


def _iso(time_ms: int) -> str:
    text = datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{time_ms % 1000:03d}Z"


def _rare_expressions() -> list[str]:
    """460 expressions on the minute: hourly, daily, on weekdays, weekly, monthly."""
    minutes = [(7 * step) % 60 for step in range(60)] * 3
    hourly = [f"{minute} * * * *" for minute in minutes[:60]]
    daily = [f"{minutes[step]} {step // 60 * 8 + step % 8} * * *" for step in range(180)]
    weekdays = [f"{minutes[step]} {step // 60 * 4 + step % 4 + 8} * * 1-5" for step in range(120)]
    weekly = [f"{minutes[step]} {step % 24} * * {step % 7}" for step in range(60)]
    monthly = [f"{minutes[step]} {step % 24} {step % 28 + 1} * *" for step in range(40)]
    return [*hourly, *daily, *weekdays, *weekly, *monthly]


_MINUTELY: Final = [f"{second} * * * * *" for second in range(60)]
_RARE: Final = _rare_expressions()
