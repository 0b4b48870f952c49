"""The keys of tokens, kept up to date: read at the start, every minute, and soon after an unknown `kid`.

A key set that can't be read leaves the former keys in force: an identity provider that is away for a while
must not lock everybody out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import trio

from shardwheel.api.auth import Gatekeeper
from shardwheel.errors import ShardwheelError, UnavailableError, UsageError
from shardwheel.service import Service
from shardwheel.settings import Settings
from shardwheel.tls import trust_of
from shardwheel.tokens import read_jwks, secret_keys

READ_S = 60.0
# However many tokens name unknown keys: the key set is read at most so often.
BETWEEN_S = 5.0
# All of it: a server that says a byte now and then must not hold up the next reading.
FETCH_LIMIT_S = 5.0
LARGEST_BYTES = 1024 * 1024
LOOPBACK = ("127.0.0.1", "::1", "localhost")


async def read_keys(settings: Settings) -> dict[str, Any]:
    """As the settings say; what is wrong with them is said at the start."""
    if settings.jwt_algorithm == "HS256":
        if not settings.secret:
            raise UsageError(
                "secret is not set: start `shardctl dev`, or set SHARDWHEEL_SECRET", field="secret"
            )
        return secret_keys([settings.secret, *settings.former_secrets])
    if not settings.jwks:
        raise UsageError(
            f"jwks is not set: {settings.jwt_algorithm} needs a file or an https:// address", field="jwks"
        )
    document = await _document(settings.jwks, settings.https_ca)
    return read_jwks(document, settings.jwt_algorithm)


async def _document(source: str, ca: str) -> bytes:
    if "://" not in source:
        try:
            return await trio.Path(Path(source)).read_bytes()
        except OSError as error:
            raise UsageError(f"jwks: {source}: {error.strerror}; give a file", field="jwks") from error
    url = httpx.URL(source)
    if url.scheme != "https" and url.host not in LOOPBACK:
        # Whoever sits on the way could hand us keys of their own.
        raise UsageError(f"jwks: {source} is not https://; give such an address, or a file", field="jwks")
    try:
        with trio.fail_after(FETCH_LIMIT_S):
            return await _fetched(source, ca)
    except (httpx.HTTPError, trio.TooSlowError) as error:
        why = str(error) or f"it did not answer within {FETCH_LIMIT_S:g} s"
        raise UnavailableError(f"jwks: {source} is out of reach: {why}") from error


async def _fetched(source: str, ca: str) -> bytes:
    """No redirect is followed: it might lead to where nobody vouches for the keys."""
    document = bytearray()
    async with httpx.AsyncClient(timeout=FETCH_LIMIT_S, verify=trust_of(ca)) as client:
        # Nothing packed: a small answer may become a huge one.
        async with client.stream("GET", source, headers={"accept-encoding": "identity"}) as answer:
            async for piece in answer.raise_for_status().aiter_raw():
                document += piece
                if len(document) > LARGEST_BYTES:
                    raise UnavailableError(f"jwks: {source} answers with more than {LARGEST_BYTES} bytes")
    return bytes(document)


class Keyring:
    """A loop of the service that gives the gatekeeper new keys. `want` may be called from any thread."""

    def __init__(self, service: Service, settings: Settings) -> None:
        self._service = service
        self._settings = settings
        self._wanted = False

    def want(self) -> None:
        self._wanted = True

    def keep(self, gatekeeper: Gatekeeper) -> None:
        async def loop() -> None:
            stopping = self._service.stopping
            read_at_s = trio.current_time()
            while not stopping.is_set():
                with trio.move_on_after(BETWEEN_S):
                    await stopping.wait()
                if self._wanted or trio.current_time() - read_at_s >= READ_S:
                    self._wanted, read_at_s = False, trio.current_time()
                    await self._renew(gatekeeper)

        self._service.add_loop("keys", loop)

    async def _renew(self, gatekeeper: Gatekeeper) -> None:
        try:
            gatekeeper.replace_keys(await read_keys(self._settings))
            self._service.health.well("keys")
        except ShardwheelError as error:
            self._service.health.unwell("keys", str(error))
