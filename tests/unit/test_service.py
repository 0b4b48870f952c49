"""The frame of every service: health, metrics, stop, the limit on the end."""

from __future__ import annotations

import os
import signal

import httpx
import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel.errors import UsageError
from shardwheel.http import Answer, address_of, listen
from shardwheel.service import Service


@trio_test
async def test_health_names_the_part_that_is_unwell() -> None:
    service = Service("test")
    service.health.well("postgres")
    await service.open()
    async with trio.open_nursery() as nursery, httpx.AsyncClient() as client:
        nursery.start_soon(service.run)
        answer = await client.get(f"http://{service.address}/healthz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        service.health.unwell("postgres", "out of reach")
        answer = await client.get(f"http://{service.address}/healthz")
        assert (answer.status_code, answer.json()["parts"]) == (503, {"postgres": "out of reach"})
        service.stop()


@trio_test
async def test_metrics_routes_of_its_own_and_unknown_ones() -> None:
    async def echo(body: bytes) -> Answer:
        return Answer(200, body)

    service = Service("test")
    service.add_route("POST", "/echo", echo)
    await service.open()
    async with (
        trio.open_nursery() as nursery,
        httpx.AsyncClient(base_url=f"http://{service.address}") as client,
    ):
        nursery.start_soon(service.run)
        assert "shardwheel_fires_total" in (await client.get("/metrics")).text
        assert (await client.post("/echo", content=b"hello")).content == b"hello"
        assert (await client.get("/nowhere")).status_code == 404
        assert (await client.post("/echo", content=b"x" * 70_000)).status_code == 413
        assert (await client.post("/echo", content=b"again")).content == b"again"
        service.stop()


@trio_test
async def test_sigterm_lets_the_loops_finish() -> None:
    service = Service("test")
    finished: list[str] = []

    async def loop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await service.stopping.wait()
        finished.append("handed over")

    service.add_loop("loop", loop)
    with trio.fail_after(30):
        await service.run()
    assert finished == ["handed over"]


def test_a_loop_that_does_not_end_is_cancelled_after_the_limit() -> None:
    async def main() -> None:
        service = Service("test", stop_limit_s=5)
        service.add_loop("stuck", trio.sleep_forever)
        service.stop()
        await service.run()
        assert trio.current_time() >= 5

    trio.run(main, clock=MockClock(autojump_threshold=0))


@trio_test
async def test_a_loop_that_fails_ends_the_service() -> None:
    async def broken() -> None:
        raise AssertionError("invariant")

    service = Service("test")
    service.add_loop("broken", broken)
    with pytest.RaisesGroup(AssertionError, flatten_subgroups=True):
        await service.run()


@trio_test
async def test_a_taken_port_is_said_with_the_remedy() -> None:
    listeners = await listen("127.0.0.1", 0)
    port = int(address_of(listeners[0]).rpartition(":")[2])
    with pytest.raises(UsageError, match="--http-port"):
        await listen("127.0.0.1", port)
    for listener in listeners:
        await listener.aclose()
