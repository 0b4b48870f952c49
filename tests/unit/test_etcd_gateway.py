"""What the edge does with each way in which a call can fail, against a server that fails on demand."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import NotFoundError, UnavailableError, UsageError
from shardwheel.etcd import Etcd, Tls
from shardwheel.ports import Put
from tests.unit.etcd_script import answer, cut, hang, refusing_endpoint, scripted, trouble

# Anything here is done in milliseconds, so only a hang comes near it.
LIMIT_S = 60.0

HEADER = {"revision": "5"}
EMPTY_RANGE = answer({"header": HEADER})
DONE = answer({"header": HEADER, "succeeded": True})
UNAVAILABLE, EXHAUSTED, UNAUTHENTICATED, OUT_OF_RANGE = (14, 503), (8, 429), (16, 401), (11, 400)


def etcd(*endpoints: str, user: str = "", time_limit_s: float = LIMIT_S) -> Etcd:
    return Etcd(endpoints, cluster="c", user=user, password="p", time_limit_s=time_limit_s)


async def write(leases: Etcd) -> None:
    await leases.txn([], [Put("k", b"")])


async def read(leases: Etcd) -> None:
    await leases.range("")


async def failure_of(call: Awaitable[object]) -> UnavailableError:
    with pytest.raises(UnavailableError) as caught:
        await call
    assert caught.value.__cause__ is not None
    return caught.value


@trio_test
async def test_a_read_is_sent_again_when_a_used_connection_dies_under_it() -> None:
    async with scripted(EMPTY_RANGE, cut, EMPTY_RANGE) as server, etcd(server.endpoint) as leases:
        await read(leases)
        await read(leases)
        assert len(server.requests) == 3


@trio_test
async def test_a_write_is_never_sent_twice() -> None:
    async with scripted(DONE, cut, DONE) as server, etcd(server.endpoint) as leases:
        await write(leases)
        failure = await failure_of(write(leases))
        assert failure.maybe_applied
        assert len(server.requests) == 2
        await write(leases)


@trio_test
async def test_what_was_certainly_not_sent_goes_to_the_next_endpoint() -> None:
    with refusing_endpoint() as nobody:
        async with scripted(DONE, DONE) as server, etcd(nobody, server.endpoint) as leases:
            await write(leases)
            await write(leases)
            assert len(server.requests) == 2
        async with etcd(nobody) as leases:
            assert not (await failure_of(write(leases))).maybe_applied


@pytest.fixture
def still_clock() -> MockClock:
    """Time stands still until the test moves it: a limit passes exactly when it is meant to."""
    return MockClock()


async def fail_by_time(
    call: Callable[[Etcd], Awaitable[object]], limit_s: float, clock: MockClock
) -> UnavailableError:
    """Let the limit pass once the request has arrived."""
    failures: list[UnavailableError] = []
    async with scripted(hang) as server, etcd(server.endpoint, time_limit_s=limit_s) as leases:

        async def fail() -> None:
            failures.append(await failure_of(call(leases)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await server.wait_for_requests(1)
            clock.jump(limit_s)
        await server.wait_until_left()
        assert len(server.requests) == 1
    return failures[0]


@trio_test
async def test_a_silent_server_costs_the_limit_and_only_writes_may_have_been_applied(
    still_clock: MockClock,
) -> None:
    assert not (await fail_by_time(read, 2.0, still_clock)).maybe_applied
    assert (await fail_by_time(write, 2.0, still_clock)).maybe_applied
    assert (await fail_by_time(lambda leases: leases.grant(5), 2.0, still_clock)).maybe_applied


@trio_test
async def test_a_read_leaves_a_silent_endpoint_while_there_is_time_for_the_next(
    still_clock: MockClock,
) -> None:
    async with scripted(hang) as silent, scripted(EMPTY_RANGE, EMPTY_RANGE) as alive:
        async with etcd(silent.endpoint, alive.endpoint, time_limit_s=2.0) as leases:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read, leases)
                await silent.wait_for_requests(1)
                still_clock.jump(1.0)
            await read(leases)
            assert len(alive.requests) == 2


@trio_test
async def test_a_write_waits_its_whole_limit_for_the_endpoint_that_has_it(still_clock: MockClock) -> None:
    failures: list[UnavailableError] = []
    async with scripted(hang) as silent, scripted() as other:
        async with etcd(silent.endpoint, other.endpoint, time_limit_s=2.0) as leases:

            async def write_in_vain() -> None:
                failures.append(await failure_of(write(leases)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(write_in_vain)
                await silent.wait_for_requests(1)
                still_clock.jump(1.5)
                await trio.testing.wait_all_tasks_blocked()
                assert failures == []
                still_clock.jump(0.5)
            assert failures[0].maybe_applied
            assert other.requests == []


@trio_test
async def test_a_server_in_trouble_is_left_for_the_next_one() -> None:
    async with scripted(trouble(*UNAVAILABLE)) as one, scripted(EMPTY_RANGE) as other:
        async with etcd(one.endpoint, other.endpoint) as leases:
            await read(leases)
    async with scripted(trouble(*UNAVAILABLE)) as one, scripted() as other:
        async with etcd(one.endpoint, other.endpoint) as leases:
            assert (await failure_of(write(leases))).maybe_applied
    # An overloaded server refuses before it does anything, so the write may go elsewhere.
    async with scripted(trouble(*EXHAUSTED)) as one, scripted(DONE) as other:
        async with etcd(one.endpoint, other.endpoint) as leases:
            await write(leases)
    async with scripted(trouble(*EXHAUSTED), trouble(*EXHAUSTED)) as server, etcd(server.endpoint) as leases:
        assert not (await failure_of(write(leases))).maybe_applied


@trio_test
async def test_only_an_answer_without_a_ttl_means_that_the_lease_is_gone() -> None:
    alive = answer({"result": {"header": HEADER, "ID": "7", "TTL": "3"}})
    gone = answer({"result": {"header": HEADER, "ID": "7"}})
    failed = answer({"error": {"grpc_code": 14, "http_code": 503, "message": "no leader"}})
    async with scripted(alive, gone, failed, failed, answer(""), answer("")) as server:
        async with etcd(server.endpoint) as leases:
            assert await leases.keep_alive(7)
            assert not await leases.keep_alive(7)
            assert "no leader" in str(await failure_of(leases.keep_alive(7)))
            await failure_of(leases.keep_alive(7))


@trio_test
async def test_something_that_is_not_etcd_is_not_believed() -> None:
    async with scripted(*[answer("{}")] * 2, *[answer("<html>")] * 2, *[answer("gone", 404)] * 2) as server:
        async with etcd(server.endpoint) as leases:
            for _ in range(3):
                await failure_of(leases.range(""))
    async with scripted(answer("no certificate with a name, please", 400)) as server:
        async with etcd(server.endpoint) as leases:
            with pytest.raises(UsageError, match="with a name"):
                await leases.range("")


@trio_test
async def test_a_dead_lease_in_a_transaction_is_named() -> None:
    async with scripted(trouble(5, 404)) as server, etcd(server.endpoint) as leases:
        with pytest.raises(NotFoundError):
            await leases.txn([], [Put("k", b"", 7)])


@trio_test
async def test_a_token_that_ended_is_replaced_once() -> None:
    first, second = answer({"token": "first"}), answer({"token": "second"})
    refused = trouble(*UNAUTHENTICATED)
    async with scripted(first, DONE, refused, second, DONE, refused, first, refused) as server:
        async with etcd(server.endpoint, user="u") as leases:
            await write(leases)
            await write(leases)
            with pytest.raises(UsageError):
                await write(leases)
        assert [(request.path[4:], request.token) for request in server.requests] == [
            ("auth/authenticate", ""),
            ("kv/txn", "first"),
            ("kv/txn", "first"),
            ("auth/authenticate", ""),
            ("kv/txn", "second"),
            ("kv/txn", "second"),
            ("auth/authenticate", ""),
            ("kv/txn", "first"),
        ]
        assert server.requests[0].body == {"name": "u", "password": "p"}


@trio_test
async def test_a_range_starts_over_when_its_revision_is_compacted_between_pages() -> None:
    def page(key: str, revision: str, more: bool) -> object:
        wire_key = base64.b64encode(f"/shardwheel/c/{key}".encode()).decode()
        return {"header": {"revision": revision}, "kvs": [{"key": wire_key}], "more": more}

    async with scripted(
        answer(page("a", "5", True)),
        trouble(*OUT_OF_RANGE),
        answer(page("a", "9", True)),
        answer(page("b", "10", False)),
    ) as server:
        async with etcd(server.endpoint) as leases:
            snapshot = await leases.range("")
        assert [item.key for item in snapshot.items] == ["a", "b"]
        assert snapshot.revision == 9
        assert [request.body.get("revision") for request in server.requests] == [None, 5, None, 9]


@trio_test
async def test_cancelling_a_call_ends_it_and_its_connection() -> None:
    async with scripted(hang, DONE) as server, etcd(server.endpoint) as leases:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, leases)
            await server.wait_for_requests(1)
            nursery.cancel_scope.cancel()
        await server.wait_until_left()
        await write(leases)


@trio_test
async def test_closing_leaves_no_connection() -> None:
    async with scripted(DONE) as server:
        async with etcd(server.endpoint) as leases:
            await write(leases)
            assert server.open_connections == 1
        await server.wait_until_left()


def test_addresses_are_understood_or_refused() -> None:
    for endpoints in ([], ["ftp://a:1"], ["http://"], ["http://a:1/v3"], ["http://[::1"]):
        with pytest.raises(UsageError) as refusal:
            Etcd(endpoints, cluster="c")
        assert refusal.value.field == "endpoints"
    Etcd(["127.0.0.1:2379", "http://a:2379/", " https://b "], cluster="c")
    for cluster in ("", "a/b"):
        with pytest.raises(UsageError):
            Etcd(["a:1"], cluster=cluster)


def test_tls_files_that_can_not_be_read_are_the_callers_business(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    for ca in ("nowhere.pem", "ca.pem"):
        with pytest.raises(UsageError) as refusal:
            Etcd(["a:2379"], cluster="c", tls=Tls(ca=str(tmp_path / ca)))
        assert refusal.value.field == "etcd_ca"
