"""What a reply that is no success means: which of our errors, and whether to send the request again. Pure.

The message is the server's own, which names the field, the problem and the remedy; where something else
answered (a proxy, another program on that port), it says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from shardwheel.client.script import Lost, Reply
from shardwheel.errors import (
    BadTokenError,
    ConflictError,
    ForbiddenError,
    LimitedError,
    NotFoundError,
    ShardwheelError,
    TooLargeError,
    UnavailableError,
    UsageError,
)

_KINDS: dict[int, type[UsageError]] = {
    401: BadTokenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
}
LONGEST_STAY_S = 60.0


def status_of(error: UsageError) -> int:
    """The other way round: the status that would become this error."""
    return next((status for status, kind in _KINDS.items() if isinstance(error, kind)), 400)


class Failure(NamedTuple):
    """`passes`: a later attempt may do better. `maybe_done`: this one may have had its effect."""

    error: ShardwheelError
    passes: bool = False
    maybe_done: bool = False
    stay_away_s: float = 0.0


def failure_of(reply: Reply | Lost, *, reads: bool = False) -> Failure | None:
    """None: it went well. Of what only reads nothing may have been done."""
    if isinstance(reply, Lost):
        return _of_lost(reply, maybe_done=reply.maybe_sent and not reads)
    if 200 <= reply.status < 300:
        return None
    said = _said(reply.body)
    if said is None:
        return _of_stranger(reply)
    if reply.status >= 500:
        maybe_done = said.get("maybe_applied", reply.status != 503)
        error = UnavailableError(said["message"], maybe_applied=maybe_done)
        return Failure(error, reply.status == 503, maybe_done, _seconds(reply.retry_after))
    if reply.status == 429:
        stay_away_s = _seconds(reply.retry_after)
        limited = LimitedError(said["message"], field=said.get("field"), retry_after_s=round(stay_away_s))
        return Failure(limited, True, stay_away_s=stay_away_s)
    kind = _KINDS.get(reply.status, UsageError)
    return Failure(kind(said["message"], field=said.get("field")))


def _of_lost(lost: Lost, *, maybe_done: bool) -> Failure:
    """Out of reach, or gone silent after it may have heard us."""
    what = "did not answer" if lost.maybe_sent else "is out of reach"
    remedy = "see that it is up, and that its address is right"
    if maybe_done:
        remedy = "it may have been done: look before you repeat it"
    reason = str(lost.error) or type(lost.error).__name__
    error = UnavailableError(f"the API {what} ({reason}); {remedy}", maybe_applied=maybe_done)
    return Failure(error, True, maybe_done)


def _of_stranger(reply: Reply) -> Failure:
    if reply.status in (502, 503, 504):
        problem = f"something before the API answered {reply.status}; see whether the API behind it is up"
        error = UnavailableError(problem, maybe_applied=True)
        return Failure(error, True, True, _seconds(reply.retry_after))
    if reply.status == 429:
        stay_away_s = _seconds(reply.retry_after)
        limited = LimitedError(
            "something before the API answered 429: too much in too short a time; ask it less often",
            retry_after_s=round(stay_away_s) or 1,
        )
        return Failure(limited, True, stay_away_s=stay_away_s)
    problem = f"what answers there ({reply.status}) is not Shardwheel's API"
    return Failure(
        UsageError(f"base_url: {problem}; give the address that `shardctl api` says", field="base_url")
    )


def _said(body: bytes) -> dict[str, Any] | None:
    """The error as the API words it; None if that is not what it is."""
    try:
        error = msgspec.json.decode(body)["error"]
        return error if isinstance(error["message"], str) else None
    except (msgspec.DecodeError, KeyError, TypeError):
        return None


def _seconds(retry_after: str) -> float:
    return min(float(retry_after), LONGEST_STAY_S) if retry_after.isdecimal() else 0.0
