"""TLS: the API's answers and the services' doors over it, and files that are refused by name."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm
from litestar.types import Receive, Scope, Send
from trio.testing import trio_test

from shardwheel.alerts.doors import HttpDoors
from shardwheel.api import patience
from shardwheel.api.keyring import read_keys
from shardwheel.api.server import DRAIN_LIMIT_S, open_socket, uvicorn_for
from shardwheel.commands.calling import Api
from shardwheel.commands.reach import find_api
from shardwheel.commands.said import Said
from shardwheel.destinations import CallbackRules
from shardwheel.doors import TcpDoors
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.http import Answer
from shardwheel.service import Service
from shardwheel.settings import Settings, load_settings
from shardwheel.tls import Tls, door_tls, server_context, trust_of
from shardwheel.webhooks import Webhooks

FILES = Path(__file__).parents[1] / "contract" / "tls"
CA = str(FILES / "ca.pem")
CERT, KEY = str(FILES / "server.pem"), str(FILES / "server.key")


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello", "more_body": False})


def test_it_is_served_with_the_certificate_and_not_without_tls() -> None:
    listener = open_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = uvicorn_for(hello, server_context(CERT, KEY))
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()
    try:
        trusting = ssl.create_default_context(cafile=CA)
        with httpx.Client(verify=trusting, trust_env=False, timeout=30) as client:
            assert client.get(f"https://127.0.0.1:{port}/").text == "hello"
            with pytest.raises(httpx.HTTPError):
                client.get(f"http://127.0.0.1:{port}/")
    finally:
        server.should_exit = True
        thread.join()


def test_a_client_that_idles_does_not_hold_up_the_end() -> None:
    listener = open_socket("127.0.0.1", 0)
    server = uvicorn_for(hello, server_context(CERT, KEY))
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()
    trusting = ssl.create_default_context(cafile=CA)
    with httpx.Client(verify=trusting, trust_env=False, timeout=30) as client:
        assert client.get(f"https://127.0.0.1:{listener.getsockname()[1]}/").text == "hello"
        server.should_exit = True
        thread.join(DRAIN_LIMIT_S / 2)
        assert not thread.is_alive()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00"], ids=["nothing", "half a greeting"])
def test_a_client_that_never_shakes_hands_is_hung_up_on(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no protocol yet, so nothing else of ours would look after it: uvloop waits a minute."""
    monkeypatch.setattr(patience, "HEAD_LIMIT_S", 0.05)
    listener = open_socket("127.0.0.1", 0)
    server = uvicorn_for(hello, server_context(CERT, KEY))
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()
    try:
        with socket.create_connection(listener.getsockname(), timeout=30) as connection:
            connection.sendall(said)
            assert connection.recv(1) == b""
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def sealed_server() -> Iterator[str]:
    """Somebody else's, of an authority of its own; whatever it is asked, it answers with a key set."""
    key = ec.generate_private_key(ec.SECP256R1())
    keys = {"keys": [ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "k1"}]}

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": msgspec.json.encode(keys), "more_body": False})

    listener = open_socket("127.0.0.1", 0)
    server = uvicorn_for(answer, server_context(CERT, KEY))
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()
    yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


async def as_keyring(url: str, ca: str) -> None:
    assert list(await read_keys(Settings(jwt_algorithm="ES256", jwks=f"{url}/keys", https_ca=ca))) == ["k1"]


async def as_watcher(url: str, ca: str) -> None:
    async with HttpDoors(trust=trust_of(ca)) as doors:
        await doors.post(url, {"alert": "it is late"})


async def as_caller_back(url: str, ca: str) -> None:
    rules = CallbackRules(private_hosts=("127.0.0.1",))
    async with Webhooks(rules, trust=trust_of(ca)) as webhooks:
        await webhooks.post(url, b"{}", {})


async def as_shardctl(url: str, ca: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHARDWHEEL_HTTPS_CA", ca)
        reach = find_api(Said(api=url, token="x"))
        assert Api(reach, timeout_s=10).get("/jobs")["keys"]


@pytest.mark.parametrize("talk", [as_keyring, as_watcher, as_caller_back, as_shardctl])
def test_an_authority_of_ones_own_is_believed_where_the_settings_name_it(
    sealed_server: str, talk: Callable[[str, str], Awaitable[None]]
) -> None:
    trio.run(talk, sealed_server, CA)
    with pytest.raises(UnavailableError):
        trio.run(talk, sealed_server, "")


def test_an_authority_that_can_not_be_read_is_named() -> None:
    for file in ("nowhere.pem", KEY):
        with pytest.raises(UsageError) as refused:
            trust_of(file)
        assert refused.value.field == "https_ca" and file in str(refused.value)


def test_without_files_it_is_plain() -> None:
    assert server_context("", "") is None


@pytest.mark.parametrize(
    ("cert", "key"), [("nowhere.pem", KEY), (KEY, CERT), (CERT, str(FILES / "client.key"))]
)
def test_files_that_can_not_be_used_are_named(cert: str, key: str) -> None:
    with pytest.raises(UsageError, match="http_tls_cert") as refused:
        server_context(cert, key)
    assert cert in str(refused.value)


def test_one_without_the_other_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        load_settings(flags={"http_tls_cert": "a.pem"})
    assert refused.value.field == "http_tls_key"


def test_doors_want_all_three_files() -> None:
    with pytest.raises(UsageError) as refused:
        load_settings(flags={"door_cert": "a.pem", "door_key": "a.key"})
    assert refused.value.field == "door_ca"


@pytest.mark.parametrize(
    ("files", "field"),
    [(Tls("nowhere.pem", CERT, KEY), "door_ca"), (Tls(CA, "nowhere.pem", KEY), "door_cert")],
)
def test_files_of_doors_that_can_not_be_used_are_named(files: Tls, field: str) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.pem") as refused:
        door_tls(files)
    assert refused.value.field == field


DOORS = Tls(CA, CERT, KEY)
SHARD = "a"


class SealedDoor(Service):
    """A shard's door with TLS."""

    def __init__(self) -> None:
        super().__init__("shard", tls=door_tls(DOORS).server)
        self.asked = trio.Event()
        self.add_route("GET", "/alive", self._alive)

    async def _alive(self, _body: bytes) -> Answer:
        self.asked.set()
        return Answer(200, msgspec.json.encode({"shard_id": SHARD}))


@asynccontextmanager
async def sealed_door() -> AsyncIterator[SealedDoor]:
    service = SealedDoor()
    await service.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        yield service
        service.stop()


def strange_certificate(folder: Path) -> Path:
    """Certificate and key in one file, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stranger")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / "stranger.pem"
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(certificate.public_bytes(pem) + private)
    return file


@trio_test
async def test_a_door_of_the_cluster_answers_its_own() -> None:
    ours = door_tls(DOORS)
    async with sealed_door() as door, httpx.AsyncClient(trust_env=False, verify=ours.verify) as client:
        answer = await client.get(ours.url(door.address, "/alive"))
        assert (answer.status_code, answer.json()) == (200, {"shard_id": SHARD})


@trio_test
async def test_without_a_certificate_one_may_look_at_health_and_figures_only() -> None:
    trusting = ssl.create_default_context(cafile=CA)
    async with sealed_door() as door, httpx.AsyncClient(trust_env=False, verify=trusting) as client:
        told = {
            path: (await client.get(f"https://{door.address}{path}")).status_code
            for path in ("/healthz", "/metrics", "/alive", "/nowhere")
        }
    assert told == {"/healthz": 200, "/metrics": 200, "/alive": 403, "/nowhere": 404}


@trio_test
async def test_a_sealed_door_says_nothing_in_plain_and_goes_on() -> None:
    async with sealed_door() as door, httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get(f"http://{door.address}/healthz")
        async with HttpDoors(door_tls(DOORS)) as doors:
            assert await doors.scrape(door.address)


@trio_test
async def test_a_certificate_of_another_authority_is_turned_away(tmp_path: Path) -> None:
    strange = door_tls(DOORS)
    assert strange.client is not None
    strange.client.load_cert_chain(strange_certificate(tmp_path))
    async with sealed_door() as door, HttpDoors(strange) as doors:
        with pytest.raises(UnavailableError):
            await doors.scrape(door.address)
        async with HttpDoors(door_tls(DOORS)) as ours:
            assert await ours.scrape(door.address)


@trio_test
async def test_a_sealed_shard_that_died_is_gone() -> None:
    gone = trio.Event()

    async def watch(address: str) -> None:
        await TcpDoors(door_tls(DOORS).client).until_gone(address, SHARD)
        gone.set()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with sealed_door() as door:
                nursery.start_soon(watch, door.address)
                await door.asked.wait()
                assert not gone.is_set()
            await gone.wait()
