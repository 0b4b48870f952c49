"""What the watcher asks of the network over HTTP: a service's `/metrics`, and a receiver's ear.

Both addresses are the operator's own (etcd and the settings name them), so private ones are allowed.
"""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Self

import httpx

from shardwheel.alerts.scrapes import Scrape, parse_scrape
from shardwheel.errors import UnavailableError
from shardwheel.tls import PLAIN_DOORS, DoorTls

SCRAPE_LIMIT_S = 3.0
# Shorter than the first pause between two tries, so that no two of them are ever under way.
DELIVERY_LIMIT_S = 10.0


class HttpDoors:
    """A client for each: they trust others. Use it with `async with`."""

    def __init__(self, tls: DoorTls = PLAIN_DOORS, *, trust: ssl.SSLContext | bool = True) -> None:
        """`trust`: whose certificates to believe of a receiver, for httpx."""
        self._tls = tls
        self._services = httpx.AsyncClient(trust_env=False, follow_redirects=False, verify=tls.verify)
        self._receivers = httpx.AsyncClient(trust_env=False, follow_redirects=False, verify=trust)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._services.aclose()
        await self._receivers.aclose()

    async def scrape(self, address: str) -> Scrape:
        try:
            answer = await self._services.get(self._tls.url(address, "/metrics"), timeout=SCRAPE_LIMIT_S)
            answer.raise_for_status()
            return parse_scrape(answer.text)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise UnavailableError(f"{address}/metrics: {_said(error)}") from error

    async def post(self, url: str, body: dict[str, Any]) -> None:
        """Tell it; only an answer of 2xx counts as heard."""
        try:
            answer = await self._receivers.post(url, json=body, timeout=DELIVERY_LIMIT_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnavailableError(_said(error)) from error
        if not answer.is_success:
            raise UnavailableError(f"answered {answer.status_code}: {answer.text[:200]}")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
