"""A watcher on a real PostgreSQL, with etcd and Kafka in memory and a receiver on loopback.

Steps are made by hand, so that nothing waits for a clock: `look` and `deliver` are what the loops call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import psycopg
import trio

from shardwheel.alert import Delivery
from shardwheel.alerts.doors import HttpDoors
from shardwheel.alerts.gather import Gather
from shardwheel.alerts.notices import Kind, Receiver
from shardwheel.alerts.roll import Roll
from shardwheel.alerts.rules import rules
from shardwheel.alerts.watch import Watch
from shardwheel.clock import DatabaseClock
from shardwheel.errors import UnavailableError
from shardwheel.http import Answer
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.memory.leases import MemoryEtcd, MemoryLeases
from shardwheel.ports import Delete, Message, Put
from shardwheel.records import Member, encode, member_key
from shardwheel.service import Service
from shardwheel.store.alert_store import PostgresAlertStore
from shardwheel.store.pool import Pool
from shardwheel.topics import RESULTS, job_topics, result_topics

DEAD_LETTER = """
INSERT INTO shardwheel.dead_letters
       (dead_letter_id, tenant_id, partition, execution_id, job_id, task, params, job, origin, scheduled_at,
        attempt, failures, crashes, reason)
SELECT gen_random_uuid(), 'default', 7, gen_random_uuid(), gen_random_uuid(), 'work', '{}', '{}', 'schedule',
       now(), 1, 1, 0, 'fatal'
  FROM generate_series(1, %s)"""


class Ear:
    """A receiver: what it was told, and what it answers."""

    def __init__(self) -> None:
        self.status = 202
        self.heard: list[dict[str, Any]] = []
        self.on_hearing: trio.CancelScope | None = None

    async def hear(self, body: bytes) -> Answer:
        self.heard.append(msgspec.json.decode(body))
        if self.on_hearing is not None:
            self.on_hearing.cancel()
        return Answer(self.status, b"{}")


class Store(PostgresAlertStore):
    """As far as a test lets it be reached."""

    away = False

    async def take_watch(self, holder: str, lease_s: float) -> bool:
        if self.away:
            raise UnavailableError("out of reach")
        return await super().take_watch(holder, lease_s)

    async def end_delivery(self, delivery: Delivery, error: str | None) -> None:
        if self.away:
            raise UnavailableError("out of reach")
        await super().end_delivery(delivery, error)


class Scene:
    def __init__(self, dsn: str, address: str, pool: Pool, ears: dict[str, Ear]) -> None:
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.leases = MemoryLeases(MemoryEtcd())
        self.kafka = MemoryKafka()
        self.bus = MemoryBus(self.kafka, limit_s=0.05)
        self.generic, self.pagerduty = ears["/generic"], ears["/pagerduty"]
        # So much later is it than the clocks say.
        self.later_s = 0.0
        self.store = Store(pool)
        self._address = address
        self._doors = HttpDoors()

    async def open(self) -> None:
        await self.bus.ensure_topics([*job_topics(2), *result_topics(2)])

    async def close(self) -> None:
        await self._doors.__aexit__(None, None, None)
        self.conn.close()

    def watcher(self, holder: str) -> Watch:
        """A process of its own: it knows nothing of those before it."""
        clock, roll = DatabaseClock(trio.current_time), Roll()
        receivers = [
            Receiver(Kind.WEBHOOK, f"http://{self._address}/generic"),
            Receiver(Kind.PAGERDUTY, f"http://{self._address}/pagerduty", "routing"),
        ]
        return Watch(
            holder,
            Service("alerts"),
            self.store,
            Gather(
                self.leases,
                self.bus,
                self.bus,
                self._doors,
                roll,
                now_ms=lambda: clock.now_ms() + self.later_s * 1000,
            ),
            roll,
            clock,
            rules(),
            receivers,
            self._doors.post,
            cluster="main",
            wall_ms=lambda: 0.0,
            monotonic=lambda: trio.current_time() + self.later_s,
        )

    async def look(self, watch: Watch, times: int = 1) -> None:
        """Look, and tell what is to be told."""
        for _ in range(times):
            await watch.look()
            await watch.deliver()

    def end_lease(self) -> None:
        """The watcher has died: so much later."""
        self.conn.execute("UPDATE shardwheel.alert_watch SET until = '-infinity'")

    def hasten(self) -> None:
        """The pause before the next try is over."""
        self.conn.execute("UPDATE shardwheel.alert_deliveries SET next_try_at = now()")

    def bury(self, count: int) -> None:
        self.conn.execute(DEAD_LETTER, [count])

    def dig_up(self) -> None:
        self.conn.execute("UPDATE shardwheel.dead_letters SET state = 'discarded'")

    async def join(self, shard_id: str, address: str = "") -> None:
        await self.leases.txn([], [Put(member_key(shard_id), encode(Member(shard_id, address=address)))])

    async def vanish(self, shard_id: str) -> None:
        await self.leases.txn([], [Delete(member_key(shard_id))])

    async def report(self, results: int) -> None:
        producer = self.bus.producer()
        ticket = producer.publish([Message(RESULTS, n % 2, b"", b"") for n in range(results)])
        await producer.wait_acknowledged(ticket)
        await producer.close()


@asynccontextmanager
async def scene(dsn: str) -> AsyncIterator[Scene]:
    service, ears = Service("receiver"), {"/generic": Ear(), "/pagerduty": Ear()}
    for path, ear in ears.items():
        service.add_route("POST", path, ear.hear)
    await service.open()
    async with trio.open_nursery() as nursery, Pool(dsn, name="alerts", size=2) as pool:
        nursery.start_soon(service.run)
        made = Scene(dsn, service.address, pool, ears)
        await made.open()
        try:
            yield made
        finally:
            await made.close()
            service.stop()
