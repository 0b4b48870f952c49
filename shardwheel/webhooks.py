"""The edge to other people's servers: one POST to one URL, and whether it was taken.

Nobody on the way can lead it elsewhere: the name is resolved here, every address it has must be public (or
the host listed by hand), and the connection goes to one of those that were checked; the name is only said, in
the Host header and to TLS, which verifies the certificate by it. No redirects, no proxies of the environment,
no second resolve, no connection used twice (two names may share an address), no body read.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

import httpx
import trio

from shardwheel.destinations import CallbackRules, Destination, destination_of, is_listed, is_public
from shardwheel.errors import UnavailableError

LIMIT_S = 10.0
MOST_ADDRESSES = 3


class Resolver(Protocol):
    """From a name to its addresses."""

    async def __call__(self, host: str, port: int) -> list[str]: ...


async def resolve(host: str, port: int) -> list[str]:
    """What this machine's resolver says, in the order in which to try."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Webhooks:
    def __init__(
        self,
        rules: CallbackRules,
        *,
        limit_s: float = LIMIT_S,
        resolver: Resolver = resolve,
        trust: ssl.SSLContext | bool = True,
    ) -> None:
        """`trust`: whose certificates to believe, for httpx."""
        self._rules = rules
        self._limit_s = limit_s
        self._resolve = resolver
        self._client = httpx.AsyncClient(
            trust_env=False,
            verify=trust,
            follow_redirects=False,
            timeout=limit_s,
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={"User-Agent": "Shardwheel"},
        )

    async def __aenter__(self) -> Webhooks:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send it; returns once the receiver has said 2xx. `UnavailableError` says why it has not,
        `UsageError` that the URL may not be called."""
        destination = destination_of(url, self._rules)
        with trio.move_on_after(self._limit_s) as scope:
            addresses = await self._addresses(destination)
            status = await self._first_answer(destination, addresses, body, headers)
        if scope.cancelled_caught:
            raise UnavailableError(f"no answer within {self._limit_s:g} s", maybe_applied=True)
        if not 200 <= status < 300:
            raise UnavailableError(f"answered {status}", maybe_applied=True)

    async def _addresses(self, destination: Destination) -> list[str]:
        host = destination.host
        try:
            found = await self._resolve(host, destination.port)
        except OSError as error:
            raise UnavailableError(f"{host} can't be resolved: {error.strerror}") from error
        if not is_listed(host, self._rules):
            for address in found:
                if not is_public(address):
                    raise UnavailableError(f"{host} leads to {address}, which is not public")
        if not found:
            raise UnavailableError(f"{host} has no address")
        return found[:MOST_ADDRESSES]

    async def _first_answer(
        self, destination: Destination, addresses: list[str], body: bytes, headers: Mapping[str, str]
    ) -> int:
        """Of the first address that takes a connection."""
        problem: httpx.HTTPError | None = None
        for address in addresses:
            try:
                return await self._answer(destination, address, body, headers)
            except httpx.ConnectError as error:
                problem = error
            except httpx.HTTPError as error:
                raise UnavailableError(f"broke off: {_said(error)}", maybe_applied=True) from error
        assert problem is not None
        raise UnavailableError(f"no connection: {_said(problem)}") from problem

    async def _answer(
        self, destination: Destination, address: str, body: bytes, headers: Mapping[str, str]
    ) -> int:
        host = f"[{address}]" if ":" in address else address
        url = f"{destination.scheme}://{host}:{destination.port}{destination.target}"
        request = self._client.stream(
            "POST",
            url,
            content=body,
            headers={**headers, "Host": destination.authority},
            extensions={"sni_hostname": destination.host},
        )
        async with request as response:
            return response.status_code


def _said(error: BaseException) -> str:
    """What lies at the bottom: the layers above it often say nothing."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return str(error) or type(error).__name__
