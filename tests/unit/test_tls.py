"""TLS: the API's answers and the services' doors over it, and files that are refused by name."""

from __future__ import annotations

import datetime
import ssl
import threading
from collections.abc import AsyncIterator
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
from litestar.types import Receive, Scope, Send
from trio.testing import trio_test

from shardwheel.alerts.doors import HttpDoors
from shardwheel.api.server import open_socket, uvicorn_for
from shardwheel.doors import TcpDoors
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.http import Answer
from shardwheel.service import Service
from shardwheel.settings import load_settings
from shardwheel.tls import Tls, door_tls, server_context

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
