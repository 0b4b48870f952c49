"""What a refusal looks like outside: `{"error": {"code", "message", "field"}}` and its status. Pure.

Errors are sorted by who must act; so the status follows from the kind of error, in one table. What is not in
it is a bug: it is logged with its traceback, and the caller learns nothing but that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from litestar.exceptions import HTTPException

from shardwheel.errors import (
    BadTokenError,
    ConflictError,
    ForbiddenError,
    LimitedError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
    UsageError,
)

RETRY_AFTER_S = 1
# Of whatever is a 503, a refusal or not.
LATER = {"retry-after": str(RETRY_AFTER_S)}


class Refusal(NamedTuple):
    status: int
    code: str
    message: str
    field: str | None = None
    retry_after_s: int = RETRY_AFTER_S
    maybe_applied: bool = False
    methods: str = ""

    def body(self) -> bytes:
        inner: dict[str, Any] = {"code": self.code, "message": self.message, "field": self.field}
        if self.status == 503:
            inner["maybe_applied"] = self.maybe_applied
        return msgspec.json.encode({"error": inner})

    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        if self.status == 405:
            return {"allow": self.methods}
        if self.status == 413:
            # The rest of the body is not read: the connection can't be used again.
            return {"connection": "close"}
        return {"retry-after": str(self.retry_after_s)} if self.status in (429, 503) else {}


_KINDS: tuple[tuple[type[UsageError], int, str], ...] = (
    (BadTokenError, 401, "unauthenticated"),
    (ForbiddenError, 403, "forbidden"),
    (NotFoundError, 404, "not_found"),
    (ConflictError, 409, "conflict"),
    (TooLargeError, 413, "too_large"),
    (LimitedError, 429, "limited"),
    (UsageError, 400, "invalid"),
)
_OF_ROUTING = {404: "not_found", 405: "method_not_allowed"}


def refusal_of(error: Exception) -> Refusal | None:
    """How to answer; None for what should never have happened."""
    if isinstance(error, UsageError):
        status, code = next((status, code) for kind, status, code in _KINDS if isinstance(error, kind))
        later_s = error.retry_after_s if isinstance(error, LimitedError) else RETRY_AFTER_S
        return Refusal(status, code, str(error), error.field, later_s)
    if isinstance(error, UnavailableError):
        doubt = "; it may have been done: look before you repeat it" if error.maybe_applied else ""
        return Refusal(503, "unavailable", f"{error}{doubt}", maybe_applied=error.maybe_applied)
    if isinstance(error, HTTPException) and error.status_code in _OF_ROUTING:
        what = "is no such route" if error.status_code == 404 else "is such a route, but not for this method"
        message = f"there {what}; see /api/v1/openapi.json"
        known = (error.headers or {}).get("allow", "").split(", ")
        methods = ", ".join(sorted(set(known) - {"OPTIONS"}))
        return Refusal(error.status_code, _OF_ROUTING[error.status_code], message, methods=methods)
    return None


BROKEN = Refusal(500, "internal", "something is broken here; the service's log has it")
