"""`Scheduler`: what a test holds. It makes jobs through a client, moves the clock, and looks at what ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from shardwheel.execution import Claimed
from shardwheel.handler import Registry
from shardwheel.handler import registry as all_handlers
from shardwheel.ids import text_of
from shardwheel.store.settle import OUTCOME_WORDS
from shardwheel.testing.attempts import Attempt
from shardwheel.testing.client import MemoryClient
from shardwheel.testing.engine import Engine
from shardwheel.times import moment_of, parse_time, refuse
from shardwheel.wire import Outcome, Result

# A Monday.
START = "2026-01-05T00:00:00Z"


class Scheduler:
    """`handlers`: functions by task; else those of `@handler`, as far as their modules are imported.
    `secrets`: what `{"$secret": "name"}` in params stands for. Chance comes from the seed."""

    def __init__(
        self,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        *,
        start: datetime | str = START,
        secrets: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        self._engine = Engine(_registry(handlers), secrets or {}, parse_time(start, "start"), seed)
        self.client = MemoryClient(self._engine)

    @property
    def now(self) -> datetime:
        return moment_of(self._engine.now_ms)

    def advance(self, **length: float) -> None:
        """Let time pass: `advance(days=3)`, `advance(hours=1, seconds=5)`, as a `timedelta` is written. All
        that is due by then runs, in order."""
        passed = timedelta(**length)
        if passed < timedelta():
            refuse("advance", "time does not go back", "give a positive length")
        self.advance_to(self.now + passed)

    def advance_to(self, moment: datetime | str) -> None:
        """Let time pass until this moment, itself included."""
        until_ms = parse_time(moment, "moment")
        if until_ms < self._engine.now_ms:
            refuse("moment", "is over already", f"choose one from {self.now.isoformat()} on")
        self._engine.run_until(until_ms)

    @property
    def attempts(self) -> list[Attempt]:
        """Every call of a handler up to now, in the order in which they began."""
        now_ms = self._engine.now_ms
        return [_attempt(claimed, result, now_ms) for claimed, result in self._engine.results]


def _registry(handlers: Mapping[str, Callable[..., Any]] | None) -> Registry:
    if handlers is None:
        return all_handlers
    registry = Registry()
    for task, function in handlers.items():
        registry.add(task, function, "short", None)
    return registry


def _attempt(claimed: Claimed, result: Result, now_ms: int) -> Attempt:
    return Attempt(
        claimed.task,
        msgspec.json.decode(claimed.params),
        claimed.attempt,
        OUTCOME_WORDS[Outcome(result.outcome)] if result.ended_ms <= now_ms else "running",
        msgspec.json.decode(result.output) if result.output else None,
        f"{result.error_class}: {result.message}" if result.error_class else None,
        moment_of(claimed.scheduled_ms),
        moment_of(result.started_ms),
        moment_of(result.ended_ms),
        text_of(claimed.job_id),
        text_of(claimed.execution_id),
    )
