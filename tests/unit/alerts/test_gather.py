"""A look at the cluster: how long a door has been silent, and that nobody who left is remembered."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardwheel.alert import TableFigures
from shardwheel.alerts.gather import Gather
from shardwheel.alerts.roll import Roll
from shardwheel.alerts.scrapes import Scrape
from shardwheel.errors import UnavailableError
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.ports import Delete, Put
from shardwheel.records import Member, encode, member_key
from shardwheel.topics import job_topics, result_topics

TABLES = TableFigures(0, 0, None, None, None, None, 0, 0)


class SilentDoors:
    async def scrape(self, address: str) -> Scrape:
        await trio.lowlevel.checkpoint()
        raise UnavailableError("no answer")


def test_a_door_that_was_gone_meanwhile_is_silent_since_it_came_back() -> None:
    async def silences() -> list[float]:
        leases, kafka = MemoryLeases(MemoryEtcd()), MemoryKafka()
        kafka.create(job_topics(1) + result_topics(1))
        bus = MemoryBus(kafka)
        gather = Gather(leases, bus, bus, SilentDoors(), Roll(), lambda: trio.current_time() * 1000)
        comes = Put(member_key("a"), encode(Member("a", address="127.0.0.1:9")))
        found: list[float] = []
        for change in (comes, None, Delete(member_key("a")), comes):
            if change is not None:
                await leases.txn([], [change])
            look = await gather.look(TABLES)
            found += [figure.value for figure in look.figures if figure.rule == "shard_door"]
            await trio.sleep(100)
        return [round(silent_s) for silent_s in found]

    assert trio.run(silences, clock=MockClock(autojump_threshold=0)) == [0, 100, 0]
