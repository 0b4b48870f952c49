"""A door that is shut for good is told from one that is slow, was never open, or only closed a connection."""

from __future__ import annotations

import msgspec
import trio
from trio.testing import trio_test

from shardwheel.doors import TcpDoors
from shardwheel.http import address_of, listen

LIMIT_S = 60


class Door:
    """Answers each connection once, by the next of these names, and holds it until it is shut."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)
        self.answered = trio.Event()
        self.let_go = trio.Event()

    async def run(self, task_status: trio.TaskStatus[str]) -> None:
        listeners = await listen("127.0.0.1", 0)
        task_status.started(address_of(listeners[0]))
        while self._names:
            async with await listeners[0].accept() as stream:
                await stream.receive_some(4096)
                body = msgspec.json.encode({"shard_id": self._names.pop(0)})
                head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n"
                await stream.send_all(head.encode() + body)
                self.answered.set()
                await self.let_go.wait()
                if not self._names:
                    await listeners[0].aclose()


@trio_test
async def test_a_shard_that_died_is_gone() -> None:
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            door = Door("a")
            address = await nursery.start(door.run)
            gone = trio.Event()

            async def watch() -> None:
                await TcpDoors().until_gone(address, "a")
                gone.set()

            nursery.start_soon(watch)
            await door.answered.wait()
            assert not gone.is_set()
            door.let_go.set()
            await gone.wait()


@trio_test
async def test_somebody_else_behind_the_same_door_means_the_same() -> None:
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            door = Door("a", "b")
            address = await nursery.start(door.run)
            door.let_go.set()
            await TcpDoors().until_gone(address, "a")


@trio_test
async def test_a_door_that_was_never_open_tells_nothing() -> None:
    listeners = await listen("127.0.0.1", 0)
    address = address_of(listeners[0])
    await listeners[0].aclose()
    with trio.move_on_after(1.2) as scope:
        await TcpDoors().until_gone(address, "a")
    assert scope.cancelled_caught
