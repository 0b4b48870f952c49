"""How a watch goes on after everything that can happen to its stream."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.etcd import Etcd
from shardwheel.ports import KeyEvent
from tests.unit.etcd_script import Script, answer, cut, scripted, stream_of, trouble

SILENCE_S = 300.0  # Passes only where a test moves the clock.
CREATED = {"header": {"revision": "9"}, "created": True}


def put(revision: int) -> dict[str, object]:
    key = base64.b64encode(b"/shardwheel/c/w/a").decode()
    kv = {"key": key, "create_revision": "3", "mod_revision": str(revision)}
    return {"header": {"revision": str(revision)}, "events": [{"kv": kv}]}


def etcd(*servers: Script, user: str = "") -> Etcd:
    endpoints = [server.endpoint for server in servers]
    return Etcd(endpoints, cluster="c", user=user, password="p", watch_silence_s=SILENCE_S)


def starts(server: Script) -> list[int]:
    """From which revision each stream was asked for."""
    watches = [request.body for request in server.requests if request.path == "/v3/watch"]
    return [watch["create_request"]["start_revision"] for watch in watches]


def revisions(batch: Sequence[KeyEvent] | None) -> list[int]:
    assert batch is not None
    return [event.revision for event in batch]


@trio_test
async def test_a_stream_cut_in_the_middle_of_a_line_goes_on_after_the_last_whole_one() -> None:
    async with scripted(
        stream_of(CREATED, put(8), '{"result": {"hea', then=cut),
        cut,
        trouble(14, 503),
        stream_of(CREATED, put(9)),
    ) as server:
        async with etcd(server) as leases, leases.watch("w/", 8) as batches:
            assert revisions(await anext(batches)) == [8]
            assert revisions(await anext(batches)) == [9]
        assert starts(server) == [8, 9, 9, 9]


@trio_test
async def test_a_line_may_come_in_pieces_and_a_piece_may_hold_several_lines() -> None:
    lines = "".join(json.dumps({"result": message}) + "\n" for message in (put(8), put(9)))
    async with scripted(stream_of(CREATED, lines[:20], lines[20:-1], "\n")) as server:
        async with etcd(server) as leases, leases.watch("w/", 8) as batches:
            assert revisions(await anext(batches)) == [8]
            assert revisions(await anext(batches)) == [9]


@pytest.fixture
def still_clock() -> MockClock:
    return MockClock()


@trio_test
async def test_silence_ends_a_stream_and_the_next_endpoint_gets_it(still_clock: MockClock) -> None:
    async with scripted(stream_of(CREATED)) as stalled, scripted(stream_of(CREATED, put(8))) as alive:
        async with etcd(stalled, alive) as leases, leases.watch("w/", 8) as batches:
            seen: list[int] = []

            async def take() -> None:
                seen.extend(revisions(await anext(batches)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
                await stalled.wait_for_requests(1)
                await trio.testing.wait_all_tasks_blocked()
                still_clock.jump(SILENCE_S)
            assert seen == [8]
            await stalled.wait_until_left()
        assert starts(stalled) == starts(alive) == [8]


@trio_test
async def test_a_cancelled_watch_is_opened_again_with_a_new_token() -> None:
    cancelled = {"header": {"revision": "9"}, "canceled": True, "cancel_reason": "invalid auth token"}
    async with scripted(
        answer({"token": "first"}),
        stream_of(CREATED, cancelled),
        answer({"token": "second"}),
        stream_of(CREATED, put(8)),
    ) as server:
        async with etcd(server, user="u") as leases, leases.watch("w/", 8) as batches:
            assert revisions(await anext(batches)) == [8]
        assert [request.token for request in server.requests] == ["", "first", "", "second"]


@trio_test
async def test_a_compacted_place_and_a_server_behind_it_both_say_none() -> None:
    compacted = {"header": {}, "canceled": True, "compact_revision": "6"}
    behind = {"header": {"revision": "2"}, "created": True}
    async with scripted(
        stream_of(CREATED, compacted),
        stream_of(CREATED, put(8), then=cut),
        stream_of(behind),
        stream_of(behind, put(3)),
    ) as server:
        async with etcd(server) as leases, leases.watch("w/", 4) as batches:
            assert await anext(batches) is None
            assert revisions(await anext(batches)) == [8]
            assert await anext(batches) is None
            assert revisions(await anext(batches)) == [3]
        assert starts(server) == [4, 6, 9, 3]


@trio_test
async def test_leaving_a_watch_closes_its_stream() -> None:
    async with scripted(stream_of(CREATED, put(8), put(9))) as server, etcd(server) as leases:
        async with leases.watch("w/", 8) as batches:
            await anext(batches)
        await server.wait_until_left()
