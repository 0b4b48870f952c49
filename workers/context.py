"""What a handler is given beside its params: who it is, how long it has, whether it should stop."""

from __future__ import annotations

from collections.abc import Callable

from shardwheel.execution import Claimed
from shardwheel.ids import text_of


class Context:
    """`fencing_token` is the attempt: a handler may use it to protect its own effects, since a stalled
    worker may wake after its lease and overlap with the next attempt for a moment.

    All but `cancelled` is read from the claim when it is asked for: a short run asks for little."""

    __slots__ = ("_claimed", "_clock", "_deadline", "cancelled")

    def __init__(self, claimed: Claimed, deadline: float, clock: Callable[[], float]) -> None:
        self._claimed = claimed
        self._deadline = deadline
        # Not trio.current_time: a plain handler asks from a thread.
        self._clock = clock
        self.cancelled = False

    @property
    def task(self) -> str:
        return self._claimed.task

    @property
    def attempt(self) -> int:
        return self._claimed.attempt

    @property
    def first_attempt(self) -> bool:
        return self._claimed.attempt == 1

    @property
    def fencing_token(self) -> int:
        return self._claimed.attempt

    @property
    def scheduled_ms(self) -> int:
        return self._claimed.scheduled_ms

    @property
    def execution_id(self) -> str:
        return text_of(self._claimed.execution_id)

    @property
    def job_id(self) -> str:
        return text_of(self._claimed.job_id)

    @property
    def seconds_left(self) -> float:
        """Until the time-out ends this attempt."""
        return max(0.0, self._deadline - self._clock())
