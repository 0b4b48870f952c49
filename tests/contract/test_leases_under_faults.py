"""A real etcd is killed, frozen and restarted under its client: it recovers by itself and loses nothing."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import trio_test

from shardwheel.compose.etcd import EtcdServer
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.etcd import Etcd, Tls
from shardwheel.ports import Compare, Put
from tests.contract.leases_rig import PATIENCE_S, EtcdRig, eventually, take_events
from tests.servers import started

pytestmark = pytest.mark.servers

TLS_FILES = Path(__file__).parent / "tls"
TLS = Tls(*(str(TLS_FILES / name) for name in ("ca.pem", "client.pem", "client.key")))


def _trusting_context() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=TLS.ca)
    context.load_cert_chain(TLS.cert, TLS.key)
    return context


class TlsEtcdServer(EtcdServer):
    """An etcd that talks only to those who show a certificate of our authority."""

    @property
    def endpoint(self) -> str:
        return f"https://{self.address}"

    def command(self) -> list[str]:
        return [
            *super().command(),
            f"--cert-file={TLS_FILES / 'server.pem'}",
            f"--key-file={TLS_FILES / 'server.key'}",
            f"--trusted-ca-file={TLS_FILES / 'ca.pem'}",
            "--client-cert-auth",
        ]

    def ready(self) -> bool:
        try:
            answer = httpx.get(
                f"{self.endpoint}/health", timeout=2, trust_env=False, verify=_trusting_context()
            )
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and answer.json().get("health") == "true"


@pytest.fixture
def own_rig(own_etcd: Callable[[], EtcdServer]) -> EtcdRig:
    return EtcdRig(own_etcd())


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[TlsEtcdServer]:
    with started(TlsEtcdServer(tmp_path / "etcd")) as server:
        yield server


class Ledger:
    """What writers were told about each key: written, refused, or nothing sure."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.unsure: set[str] = set()

    async def write(self, leases: Etcd, key: str) -> None:
        try:
            result = await leases.txn([Compare(key, 0)], [Put(key, b"")])
        except UnavailableError as error:
            (self.unsure if error.maybe_applied else self.refused).add(key)
            await trio.sleep(0.02)
        else:
            assert result.succeeded
            self.acknowledged.add(key)

    async def write_for_ever(self, leases: Etcd, name: str) -> None:
        for number in itertools.count():
            await self.write(leases, f"{name}/{number}")

    async def wait_for_more(self, more: int) -> None:
        enough = len(self.acknowledged) + more

        async def reached() -> bool:
            return len(self.acknowledged) >= enough

        await eventually(reached)


@trio_test
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed_again_and_again(
    own_rig: EtcdRig,
) -> None:
    ledger = Ledger()
    async with own_rig.client() as leases:
        async with trio.open_nursery() as nursery:
            for name in ("a", "b", "c"):
                nursery.start_soon(ledger.write_for_ever, leases, name)
            for _ in range(2):
                await ledger.wait_for_more(50)
                await own_rig.stop()
                await own_rig.start()
            await ledger.wait_for_more(50)
            nursery.cancel_scope.cancel()
        found = {item.key for item in (await leases.range("")).items}
    assert ledger.acknowledged <= found
    # "Certainly not applied" was true each time it was said. (Each writer's last key was cut short.)
    assert not ledger.refused & found
    assert len(found - ledger.acknowledged - ledger.unsure) <= 3


@trio_test
async def test_a_frozen_server_costs_the_time_limit_and_no_more(own_rig: EtcdRig) -> None:
    ledger = Ledger()
    async with own_rig.client() as patient, own_rig.client(time_limit_s=1.0) as hasty:
        await ledger.write(patient, "before")
        lease = await patient.grant(600)
        await trio.to_thread.run_sync(own_rig.server.freeze)

        async def fails(call: Callable[[], Awaitable[object]]) -> None:
            with pytest.raises(UnavailableError):
                await call()

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails, lambda: hasty.range(""))
                nursery.start_soon(fails, lambda: hasty.keep_alive(lease))
                nursery.start_soon(fails, lambda: hasty.grant(5))
                nursery.start_soon(ledger.write, hasty, "during")
        assert "during" not in ledger.acknowledged
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ledger.write, patient, "waits for the thaw")
            await trio.testing.wait_all_tasks_blocked()
            own_rig.server.thaw()
        assert "waits for the thaw" in ledger.acknowledged
        await eventually(lambda: _works(hasty))
        found = {item.key for item in (await patient.range("")).items}
        assert ledger.acknowledged <= found
        assert not ledger.refused & found


async def _works(leases: Etcd) -> bool:
    try:
        await leases.range("")
    except UnavailableError:
        return False
    return True


@trio_test
async def test_a_watch_survives_a_freeze(own_rig: EtcdRig) -> None:
    async with own_rig.client() as leases:
        first = await leases.txn([], [Put("w/a", b"")])
        async with leases.watch("w/", first.revision) as batches:
            await take_events(batches, 1)
            await trio.to_thread.run_sync(own_rig.server.freeze)
            # Longer than the silence that ends a stream: it tries to open another, in vain.
            with trio.move_on_after(2.5):
                await anext(batches)
            own_rig.server.thaw()
            second = await leases.txn([], [Put("w/b", b"")])
            assert [event.revision for event in await take_events(batches, 1)] == [second.revision]


@trio_test
async def test_another_client_never_suffers_from_a_connection_that_died(own_rig: EtcdRig) -> None:
    """Connections that were idle when their server ended must not fail a call after its return."""
    async with own_rig.client() as leases:
        async with trio.open_nursery() as nursery:
            for _ in range(6):  # As many connections, idle afterwards.
                nursery.start_soon(leases.range, "")
        await own_rig.stop()
        await own_rig.start()
        for number in range(6):
            assert (await leases.txn([], [Put(f"k/{number}", b"")])).succeeded
        async with own_rig.client() as fresh:
            assert len((await fresh.range("k/")).items) == 6


async def _enable_users(endpoint: str) -> None:
    async with httpx.AsyncClient(verify=_trusting_context(), trust_env=False, timeout=PATIENCE_S) as http:
        for path, body in (
            ("role/add", {"name": "root"}),
            ("user/add", {"name": "root", "password": "open sesame"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            answer = await http.post(f"{endpoint}/v3/auth/{path}", json=body)
            assert answer.status_code == 200, answer.text


def _client_of(server: EtcdServer, password: str) -> Etcd:
    return Etcd(
        [server.address],
        cluster="tls",
        tls=TLS,
        user="root",
        password=password,
        time_limit_s=PATIENCE_S,
        watch_silence_s=1.0,
    )


@trio_test
async def test_tls_and_users_pass_through(tls_server: TlsEtcdServer) -> None:
    async with _client_of(tls_server, "open sesame") as leases:
        # A user is no hindrance while etcd knows of none.
        first = await leases.txn([], [Put("a", b"")])
        await _enable_users(tls_server.endpoint)
        lease = await leases.grant(600)
        assert (await leases.txn([], [Put("b", b"", lease)])).succeeded
        async with leases.watch("", first.revision) as batches:
            await take_events(batches, 2)
            # Tokens are gone with the server that gave them, also the one of the watch.
            await trio.to_thread.run_sync(tls_server.kill)
            await trio.to_thread.run_sync(tls_server.start)
            assert await leases.keep_alive(lease)
            assert (await leases.txn([], [Put("c", b"")])).succeeded
            [event] = await take_events(batches, 1)
            assert event.key == "c"


@trio_test
async def test_a_wrong_password_and_a_missing_certificate_say_so(tls_server: TlsEtcdServer) -> None:
    await _enable_users(tls_server.endpoint)
    async with _client_of(tls_server, "wrong") as leases:
        with pytest.raises(UsageError, match="invalid user ID or password"):
            await leases.range("")
    stranger = Tls(ca=TLS.ca)
    async with Etcd([tls_server.address], cluster="x", tls=stranger, time_limit_s=PATIENCE_S) as leases:
        with pytest.raises(UnavailableError):
            await leases.range("")
    async with Etcd([tls_server.endpoint], cluster="x", time_limit_s=PATIENCE_S) as leases:
        with pytest.raises(UnavailableError, match="certificate"):
            await leases.range("")
