"""One HTTP request to etcd and its answer: connections, TLS, and whether anything was sent.

The transport of httpx is used without its client, which would add cookies, redirects, proxies of the
environment and limits for each read: nothing that a call to etcd wants. It repeats nothing and sets no limit
but the one on connecting; both are the gateway's business.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import httpx

from shardwheel.errors import UsageError
from shardwheel.etcd_codec import error_of
from shardwheel.tls import Tls, client_context, unused_context


class Sent:
    """Whether a request's first byte may have left; told by httpcore through its trace."""

    def __init__(self) -> None:
        self.begun = False

    async def trace(self, event: str, _details: dict[str, Any]) -> None:
        if event.endswith("send_request_headers.started"):
            self.begun = True


class Attempt(NamedTuple):
    """One try of one request at one endpoint."""

    address: str
    path: str
    body: bytes
    connect_s: float
    sent: Sent


class _Body(httpx.AsyncByteStream):
    """The bytes of a request. httpx's own is an async generator, which a cancelled call would leave behind
    for the garbage collector to finish."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._content)


class _Once:
    def __init__(self, content: bytes) -> None:
        self._left = [content]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class Http:
    """A pool of connections to all endpoints; as many as there are calls and watches at once."""

    def __init__(self, addresses: Sequence[str], tls: Tls) -> None:
        self._transport = httpx.AsyncHTTPTransport(
            verify=_ssl_context(tls, addresses),
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

    async def close(self) -> None:
        await self._transport.aclose()

    async def post(self, attempt: Attempt, token: str) -> bytes:
        response = await self.open(attempt, token)
        return await response.aread()

    async def open(self, attempt: Attempt, token: str) -> httpx.Response:
        """The answer's head; the caller reads the rest, and closes it. One that is not 200 is an error."""
        request = httpx.Request(
            "POST",
            attempt.address + attempt.path,
            headers=_headers(attempt, token),
            stream=_Body(attempt.body),
            extensions={"timeout": {"connect": attempt.connect_s}, "trace": attempt.sent.trace},
        )
        response = await self._transport.handle_async_request(request)
        if response.status_code != 200:
            raise error_of(response.status_code, await response.aread())
        return response


def _headers(attempt: Attempt, token: str) -> dict[str, str]:
    headers = {
        "host": attempt.address.partition("://")[2],
        # Not idle: etcd knows by this header that a call came through its gateway. Without it, and with TLS,
        # it would take the gateway's own certificate for the caller's and look for a user of that name.
        "accept": "application/json",
        "content-type": "application/json",
        "content-length": str(len(attempt.body)),
    }
    return {**headers, "authorization": token} if token else headers


def address_of(endpoint: str, tls: Tls) -> str:
    """ "host:2379" and "http://host:2379/" both mean what they seem to. Without a scheme it is plain
    HTTP, unless there are TLS files."""
    address = endpoint.strip()
    if "://" not in address:
        address = f"{'https' if any(tls) else 'http'}://{address}"
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host or url.path != "/":
        raise UsageError(f"endpoints: not an address of etcd: {endpoint!r}", field="endpoints")
    return f"{url.scheme}://{url.netloc.decode()}"


def _ssl_context(tls: Tls, addresses: Sequence[str]) -> ssl.SSLContext:
    if not any(address.startswith("https:") for address in addresses):
        return unused_context()
    return client_context(tls, "etcd")
