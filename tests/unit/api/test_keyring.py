"""Where the keys come from, and what happens when they can't be had."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from trio.testing import trio_test

from shardwheel.api import keyring
from shardwheel.api.auth import Gatekeeper
from shardwheel.api.keyring import read_keys
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.http import Answer, address_of, listen, serve
from shardwheel.service import Service
from shardwheel.settings import Settings
from shardwheel.tokens import UnknownKeyError, Verifier, key_name


def key_set(key: ec.EllipticCurvePrivateKey | None = None, kid: str = "k1") -> bytes:
    made = key or ec.generate_private_key(ec.SECP256R1())
    return json.dumps({"keys": [ECAlgorithm.to_jwk(made.public_key(), as_dict=True) | {"kid": kid}]}).encode()


@trio_test
async def test_secrets_present_and_former() -> None:
    settings = Settings(secret="a" * 32, former_secrets=("b" * 32,))
    assert list(await read_keys(settings)) == [key_name("a" * 32), key_name("b" * 32)]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (Settings(), "secret"),
        (Settings(secret="short"), "secret"),
        (Settings(jwt_algorithm="RS256"), "jwks"),
        (Settings(jwt_algorithm="ES256", jwks="/no/such/file"), "jwks"),
        (Settings(jwt_algorithm="ES256", jwks="http://keys.example.org/jwks.json"), "jwks"),
    ],
)
def test_what_is_missing_is_said_by_name(settings: Settings, field: str) -> None:
    with pytest.raises(UsageError) as refused:
        trio.run(read_keys, settings)
    assert refused.value.field == field


@trio_test
async def test_a_key_set_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set())
    assert list(await read_keys(Settings(jwt_algorithm="ES256", jwks=str(path)))) == ["k1"]


@trio_test
async def test_a_key_set_from_an_address() -> None:
    document = key_set()

    async def answer(_body: bytes) -> Answer:
        return Answer(200, document)

    listeners = await listen("127.0.0.1", 0)
    address = address_of(listeners[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, {("GET", "/keys"): answer}, listeners)
        settings = Settings(jwt_algorithm="ES256", jwks=f"http://{address}/keys")
        assert list(await read_keys(settings)) == ["k1"]
        with pytest.raises(UnavailableError):
            await read_keys(Settings(jwt_algorithm="ES256", jwks=f"http://{address}/none"))
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def odd_server(head: bytes, piece: bytes) -> AsyncIterator[Settings]:
    """Says this head to whoever comes, and then this piece again and again; nothing: it hangs."""

    async def say(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(head)
            while piece:
                await stream.send_all(piece)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), say, 0)
        port = listener.socket.getsockname()[1]
        yield Settings(jwt_algorithm="ES256", jwks=f"http://127.0.0.1:{port}/keys")
        nursery.cancel_scope.cancel()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n"


async def _hangs(head: bytes) -> None:
    async with odd_server(head, b"") as settings:
        with pytest.raises(UnavailableError, match="out of reach"):
            await read_keys(settings)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", HEAD + b"{"], ids=["nothing", "head", "body"])
def test_an_address_that_hangs(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "FETCH_LIMIT_S", 0.05)
    trio.run(_hangs, head)


@trio_test
async def test_an_address_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte in time, and never an end: what is limited is all of it."""
    monkeypatch.setattr(keyring, "FETCH_LIMIT_S", 0.05)
    monkeypatch.setattr(keyring, "LARGEST_BYTES", 1 << 60)
    async with odd_server(HEAD.replace(b"10000000", b"1" + b"0" * 15), b" ") as settings:
        with pytest.raises(UnavailableError, match="out of reach"):
            await read_keys(settings)


@trio_test
async def test_an_address_that_answers_ten_megabytes() -> None:
    async with odd_server(HEAD, b" " * 65_536) as settings:
        with pytest.raises(UnavailableError, match="more than 1048576 bytes"):
            await read_keys(settings)


@trio_test
async def test_an_address_that_redirects() -> None:
    elsewhere = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/keys\r\ncontent-length: 0\r\n\r\n"
    async with odd_server(elsewhere, b"") as settings:
        with pytest.raises(UnavailableError, match="302"):
            await read_keys(settings)


@trio_test
async def test_jwks_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of a key that is not known yet: soon it is; and what was taken out is not believed any more."""
    monkeypatch.setattr(keyring, "BETWEEN_S", 0.001)
    old, new = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(old, "k1"))
    settings = Settings(jwt_algorithm="ES256", jwks=str(path))
    service = Service("api", address="none")
    ring = keyring.Keyring(service, settings)
    verifier = Verifier("ES256", "shardwheel", "shardwheel")
    gatekeeper = Gatekeeper(verifier, await read_keys(settings), now_s=time.time, want_keys=ring.want)
    ring.keep(gatekeeper)
    assert gatekeeper.caller(bearer(old, "k1")).tenant == "acme"
    path.write_bytes(key_set(new, "k2"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        with trio.fail_after(30):
            await believed(gatekeeper, bearer(new, "k2"))
        with pytest.raises(UnknownKeyError):
            gatekeeper.caller(bearer(old, "k1"))
        service.stop()


async def believed(gatekeeper: Gatekeeper, header: str) -> None:
    while True:
        with suppress(UnknownKeyError):
            gatekeeper.caller(header)
            return
        await trio.sleep(0.001)


def bearer(key: ec.EllipticCurvePrivateKey, kid: str) -> str:
    claims = {"tenant": "acme", "role": "viewer", "iss": "shardwheel", "aud": "shardwheel"}
    return "Bearer " + jwt.encode(claims | {"exp": int(time.time()) + 60}, key, "ES256", {"kid": kid})
