"""One door to etcd's HTTP/JSON gateway: endpoints, TLS, tokens, time limits, and what may be repeated.

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
import ssl
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import httpx
import msgspec
import trio

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.etcd_codec import (
    FAILED_PRECONDITION,
    RefusedError,
    ServerTroubleError,
    decode_token,
    error_of,
)

T = TypeVar("T")

# What may pass by itself: back off and try again, here or at another endpoint.
TRANSIENT = (httpx.RequestError, trio.TooSlowError, ServerTroubleError, msgspec.MsgspecError)


class Tls(NamedTuple):
    """Files in PEM: whom to trust (empty: the system's own roots), and a client certificate with its key."""

    ca: str = ""
    cert: str = ""
    key: str = ""


class Effect(enum.Enum):
    """What a call does to etcd, which decides whether it may be sent twice."""

    READS = enum.auto()
    REPEATABLE = enum.auto()
    ONCE = enum.auto()


class _Sent:
    """Whether a request's first byte may have left; told by httpcore through its trace."""

    def __init__(self) -> None:
        self.begun = False

    async def trace(self, event: str, _details: dict[str, Any]) -> None:
        if event.endswith("send_request_headers.started"):
            self.begun = True


class _Attempt(NamedTuple):
    """One try of one request at one endpoint."""

    endpoint: int
    path: str
    body: bytes
    connect_s: float
    sent: _Sent


class Gateway:
    """The endpoints of one etcd cluster, tried in turn; one pool of connections for all."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: Tls | None = None,
        user: str = "",
        password: str = "",
    ) -> None:
        self.endpoints = [_address(endpoint, tls) for endpoint in endpoints]
        if not self.endpoints:
            raise UsageError("endpoints: name at least one, like http://127.0.0.1:2379", field="endpoints")
        self.current = 0
        self._user = user
        self._password = password
        self.token: str | None = None  # None: not known yet. Empty: none is needed.
        self._token_lock = trio.Lock()
        self._http = httpx.AsyncClient(
            verify=_ssl_context(tls, self.endpoints),
            trust_env=False,  # A proxy of the environment must not come between us and etcd.
            headers={"accept-encoding": "identity", "content-type": "application/json"},
            timeout=None,  # The limits are ours: they cover a whole call, httpx's only each read.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def call(
        self, path: str, request: Any, decode: Callable[[bytes], T], effect: Effect, limit_at: float
    ) -> T:
        """Post the request and return the decoded answer; each endpoint gets a try, within the limit."""
        body = msgspec.json.encode(request)
        sent = _Sent()
        for turn in range(max(2, len(self.endpoints))):
            attempt = _Attempt(self.current, path, body, self._share_s(turn, limit_at), sent)
            try:
                with trio.fail_after(self._limit_s(turn, effect, limit_at)):
                    return decode(await self._post(attempt))
            except TRANSIENT as error:
                failure: Exception = error
                self.turn_from(attempt.endpoint)
                if isinstance(error, ServerTroubleError) and error.not_applied:
                    sent.begun = False
            if (sent.begun and effect is Effect.ONCE) or trio.current_time() >= limit_at:
                break
        raise UnavailableError(
            f"etcd at {self.endpoints[attempt.endpoint]} is out of reach: {reason(failure)}",
            maybe_applied=sent.begun and effect is not Effect.READS,
        ) from failure

    async def open_stream(self, endpoint: int, path: str, request: Any) -> httpx.Response:
        """Post a request whose answer is a stream; the caller sets the limit and closes it."""
        token = await self._current_token(endpoint)
        content = msgspec.json.encode(request)
        url = self.endpoints[endpoint] + path
        http_request = self._http.build_request("POST", url, content=content, headers=_authorization(token))
        response = await self._http.send(http_request, stream=True)
        if response.status_code != 200:
            error = error_of(response.status_code, await response.aread())
            self.forget_token(token)
            raise error
        return response

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

    async def _post(self, attempt: _Attempt) -> bytes:
        token = await self._current_token(attempt.endpoint)
        try:
            return await self._post_as(token, attempt)
        except RefusedError as refused:
            if not (self._user and refused.wants_new_token):
                raise
        self.forget_token(token)  # A token ends by itself, and with the server that gave it.
        return await self._post_as(await self._current_token(attempt.endpoint), attempt)

    async def _post_as(self, token: str, attempt: _Attempt) -> bytes:
        response = await self._http.post(
            self.endpoints[attempt.endpoint] + attempt.path,
            content=attempt.body,
            headers=_authorization(token),
            timeout=httpx.Timeout(None, connect=attempt.connect_s),
            extensions={"trace": attempt.sent.trace},
        )
        if response.status_code != 200:
            raise error_of(response.status_code, response.content)
        return response.content

    async def _current_token(self, endpoint: int) -> str:
        """The token to call with; empty when no user was given, or when etcd wants none."""
        if not self._user:
            return ""
        async with self._token_lock:
            if self.token is None:
                self.token = await self._authenticate(endpoint)
            return self.token

    async def _authenticate(self, endpoint: int) -> str:
        body = msgspec.json.encode({"name": self._user, "password": self._password})
        response = await self._http.post(self.endpoints[endpoint] + "/v3/auth/authenticate", content=body)
        if response.status_code == 200:
            return decode_token(response.content).token
        error = error_of(response.status_code, response.content)
        if isinstance(error, RefusedError) and error.code == FAILED_PRECONDITION:
            return ""  # This etcd has no users: everybody may.
        raise error


def reason(error: BaseException) -> str:
    """The first error in the chain that says something, with its kind: drivers wrap without words."""
    link: BaseException | None = error
    while link is not None and not str(link):
        link = link.__cause__ or link.__context__
    if isinstance(error, trio.TooSlowError) or link is None:
        return "no answer within the time limit"
    return f"{type(link).__name__}: {link}"


def _authorization(token: str) -> dict[str, str]:
    return {"authorization": token} if token else {}


def _address(endpoint: str, tls: Tls | None) -> str:
    """ "host:2379" and "http://host:2379/" both mean what they seem to."""
    address = endpoint.strip()
    if "://" not in address:
        address = f"{'https' if tls else 'http'}://{address}"
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host or url.path != "/":
        raise UsageError(f"endpoints: not an address of etcd: {endpoint!r}", field="endpoints")
    return f"{url.scheme}://{url.netloc.decode()}"


def _ssl_context(tls: Tls | None, addresses: Sequence[str]) -> ssl.SSLContext:
    if not any(address.startswith("https:") for address in addresses):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Never used; the system's roots take long to read.
    try:
        context = ssl.create_default_context(cafile=tls.ca if tls and tls.ca else None)
        if tls and tls.cert:
            context.load_cert_chain(tls.cert, tls.key or None)
    except OSError as error:  # Also ssl.SSLError: a file that is not what it should be.
        raise UsageError(f"etcd's TLS files can't be read: {error}", field="tls") from error
    return context
