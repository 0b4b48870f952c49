"""A `Client` whose API is the scheduler in memory. What it pauses for (`wait`) is time that passes there."""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.client import Client
from shardwheel.client.answers import Job
from shardwheel.client.failing import status_of
from shardwheel.client.script import Lost, Pause, Reply, Script, Send, Step
from shardwheel.errors import UsageError
from shardwheel.testing.engine import Engine
from shardwheel.testing.routes import answer


class MemoryClient(Client):
    """A job with `conn` is stored here too, and at once: nothing is asked of your connection."""

    def __init__(self, engine: Engine) -> None:
        super().__init__("http://testing")
        self._engine = engine
        self._keys = 0

    def _do(self, step: Step) -> Any:
        match step:
            case Pause(seconds):
                self._engine.run_until(self._engine.now_ms + max(1, round(seconds * 1000)))
                return None
        return super()._do(step)

    def _create(self, posted: dict[str, Any], conn: object) -> Script[Job]:
        return super()._create(posted, None)

    def _send(self, send: Send) -> Reply | Lost:
        try:
            status, value = answer(self._engine, self._tenant, send)
        except UsageError as error:
            told = {"error": {"code": "", "message": str(error), "field": error.field}}
            return Reply(status_of(error), msgspec.json.encode(told))
        return Reply(status, msgspec.json.encode(value))

    def _new_key(self) -> str:
        self._keys += 1
        return f"key {self._keys}"

    def _now_s(self) -> float:
        return self._engine.now_ms / 1000
