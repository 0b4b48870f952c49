"""Errors, sorted by who must act. A handler's failure is a result, not an exception."""

from __future__ import annotations


class ShardwheelError(Exception):
    """The base of all errors that Shardwheel raises on purpose."""


class UsageError(ShardwheelError):
    """The caller must change something: the message names the field, the problem and the remedy."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFoundError(UsageError):
    """There is no such thing, or it belongs to another tenant."""


class ConflictError(UsageError):
    """The request is well formed but the present state refuses it."""


class TooLargeError(UsageError):
    """What was sent is larger than its limit."""


class BadTokenError(UsageError):
    """The token is not believed; the message says why, never what is in it."""


class ForbiddenError(UsageError):
    """The token is good, but does not allow this."""


class LimitedError(UsageError):
    """Too much in too short a time: later."""

    def __init__(self, message: str, *, field: str | None = None, retry_after_s: int = 1) -> None:
        super().__init__(message, field=field)
        self.retry_after_s = retry_after_s


class NotOverError(ShardwheelError, TimeoutError):
    """What was waited for is not over yet: wait longer, or ask why."""


class OwnershipError(ShardwheelError):
    """Another shard took over: stop firing the partition now."""


class RefusedError(ShardwheelError):
    """A server refuses the data itself, and would again: leave out what is refused. Raised by edges only."""


class UnavailableError(ShardwheelError):
    """A server is out of reach: back off and retry. Raised by edges only, the driver's error as its cause.

    `maybe_applied` is true when the request may have taken effect although its answer was lost.
    """

    def __init__(self, message: str, *, maybe_applied: bool = False) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied
