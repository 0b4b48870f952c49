"""One door to etcd's HTTP/JSON gateway: endpoints, tokens, time limits, and what may be repeated.

Never waits beyond the caller's limit, and never sends twice what must not be applied twice. Whether a
failed request had been sent is not guessed from the kind of error: httpcore says when it begins to
write. Until then (connection refused, no route, TLS refused) nothing can have been applied, and the next
endpoint gets it. From then on a call that is `ONCE` ends with `maybe_applied`, and one that is repeatable
goes to the next endpoint.

So a pooled connection whose server was killed does no harm. httpcore drops one that is known to be closed
before it sends; if the end arrives in between, a repeatable call is sent again on a new connection.

With several endpoints a repeatable call gives each a share of its limit: three endpoints and 2 s means
that one frozen server costs 0.67 s, not the lease.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import httpx
import msgspec
import trio

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.etcd_codec import FAILED_PRECONDITION, RefusedError, ServerTroubleError, decode_token
from shardwheel.etcd_http import Attempt, Http, Sent, address_of
from shardwheel.tls import NO_FILES, Tls

T = TypeVar("T")

# What may pass by itself: back off and try again, here or at another endpoint.
TRANSIENT = (httpx.RequestError, trio.TooSlowError, ServerTroubleError, msgspec.MsgspecError)


class Effect(enum.Enum):
    """What a call does to etcd, which decides whether it may be sent twice."""

    READS = enum.auto()
    REPEATABLE = enum.auto()
    ONCE = enum.auto()


class Gateway:
    """The endpoints of one etcd cluster, tried in turn; one pool of connections for all."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: Tls = NO_FILES,
        user: str = "",
        password: str = "",
    ) -> None:
        self.endpoints = [address_of(endpoint, tls) for endpoint in endpoints]
        if not self.endpoints:
            raise UsageError("endpoints: name at least one, like http://127.0.0.1:2379", field="endpoints")
        self.current = 0
        self._user = user
        self._password = password
        self.token: str | None = None  # None: not known yet. Empty: none is needed.
        self._token_lock = trio.Lock()
        self._http = Http(self.endpoints, tls)

    async def close(self) -> None:
        await self._http.close()

    async def call(
        self, path: str, request: Any, decode: Callable[[bytes], T], effect: Effect, limit_at: float
    ) -> T:
        """Post the request and return the decoded answer; each endpoint gets a try, within the limit."""
        body = msgspec.json.encode(request)
        sent = Sent()
        for turn in range(max(2, len(self.endpoints))):
            endpoint = self.current
            address = self.endpoints[endpoint]
            attempt = Attempt(address, path, body, self._share_s(turn, limit_at), sent)
            try:
                with trio.fail_after(self._limit_s(turn, effect, limit_at)):
                    return decode(await self._with_token(self._http.post, attempt))
            except TRANSIENT as error:
                failure: Exception = error
                self.turn_from(endpoint)
                if isinstance(error, ServerTroubleError) and error.not_applied:
                    sent.begun = False
            if (sent.begun and effect is Effect.ONCE) or trio.current_time() >= limit_at:
                break
        raise UnavailableError(
            f"etcd at {address} is out of reach: {reason(failure)}",
            maybe_applied=sent.begun and effect is not Effect.READS,
        ) from failure

    async def open_stream(self, endpoint: int, path: str, request: Any, limit_s: float) -> httpx.Response:
        """Post a request whose answer is a stream, which the caller closes."""
        body = msgspec.json.encode(request)
        attempt = Attempt(self.endpoints[endpoint], path, body, limit_s, Sent())
        with trio.fail_after(limit_s):
            return await self._with_token(self._http.open, attempt)

    def turn_from(self, endpoint: int) -> None:
        """Go on with the next endpoint, unless another call has turned from this one already."""
        if self.current == endpoint:
            self.current = self.next_after(endpoint)

    def next_after(self, endpoint: int) -> int:
        return (endpoint + 1) % len(self.endpoints)

    def forget_token(self, token: str | None) -> None:
        """The next call asks for a new token, unless another call has got one meanwhile."""
        if token == self.token:
            self.token = None

    def _share_s(self, turn: int, limit_at: float) -> float:
        left_s = max(0.0, limit_at - trio.current_time())
        return left_s / max(1, len(self.endpoints) - turn)

    def _limit_s(self, turn: int, effect: Effect, limit_at: float) -> float:
        """A call that may not be repeated waits for its answer as long as it can."""
        if effect is Effect.ONCE:
            return max(0.0, limit_at - trio.current_time())
        return self._share_s(turn, limit_at)

    async def _with_token(self, send: Callable[[Attempt, str], Awaitable[T]], attempt: Attempt) -> T:
        """A token ends by itself, and with the server that gave it: then a new one is asked for, once."""
        token = await self._current_token(attempt)
        try:
            return await send(attempt, token)
        except RefusedError as refused:
            if not (self._user and refused.wants_new_token):
                raise
        self.forget_token(token)
        return await send(attempt, await self._current_token(attempt))

    async def _current_token(self, attempt: Attempt) -> str:
        """The token to call with; empty when no user was given, or when etcd wants none."""
        if not self._user:
            return ""
        async with self._token_lock:
            if self.token is None:
                self.token = await self._authenticate(attempt)
            return self.token

    async def _authenticate(self, attempt: Attempt) -> str:
        body = msgspec.json.encode({"name": self._user, "password": self._password})
        asking = attempt._replace(path="/v3/auth/authenticate", body=body, sent=Sent())
        try:
            return decode_token(await self._http.post(asking, token="")).token
        except RefusedError as refused:
            if refused.code == FAILED_PRECONDITION:  # This etcd has no users: everybody may.
                return ""
            raise


def reason(error: BaseException) -> str:
    """The first error in the chain that says something, with its kind: drivers wrap without words."""
    link: BaseException | None = error
    while link is not None and not str(link):
        link = link.__cause__ or link.__context__
    if isinstance(error, trio.TooSlowError) or link is None:
        return "no answer within the time limit"
    return f"{type(link).__name__}: {link}"
