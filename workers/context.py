"""What a handler is given beside its params: who it is, how long it has, whether it should stop."""

from __future__ import annotations

from collections.abc import Callable

from shardwheel.execution import Claimed
from shardwheel.ids import text_of


class Context:
    """`fencing_token` is the attempt: a handler may use it to protect its own effects, since a stalled
    worker may wake after its lease and overlap with the next attempt for a moment."""

    def __init__(self, claimed: Claimed, seconds_left: Callable[[], float]) -> None:
        self._claimed = claimed
        self.task = claimed.task
        self.attempt = claimed.attempt
        self.first_attempt = claimed.attempt == 1
        self.fencing_token = claimed.attempt
        self.scheduled_ms = claimed.scheduled_ms
        self.cancelled = False
        self._seconds_left = seconds_left

    @property
    def execution_id(self) -> str:
        # Written out only for those who ask: it would be the dearest part of a short run.
        return text_of(self._claimed.execution_id)

    @property
    def job_id(self) -> str:
        return text_of(self._claimed.job_id)

    @property
    def seconds_left(self) -> float:
        """Until the time-out ends this attempt."""
        return self._seconds_left()
