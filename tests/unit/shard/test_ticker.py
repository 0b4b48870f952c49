"""The tick: what is due goes out at once, what was missed at a limited rate, and nothing is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from shardwheel.errors import UnavailableError
from shardwheel.metrics import OLDEST_DUE
from shardwheel.ports import Message
from shardwheel.shard.arrivals import Stand
from shardwheel.shard.holding import Holding
from shardwheel.shard.ledger import Ledger
from shardwheel.shard.ticker import Ticker
from tests.unit.shard.entries import NOON_MS, at, every, fires, once

NEW = at(Stand(0, 0))


class Broker:
    """A producer that keeps what it is given, and has room only while told so."""

    def __init__(self) -> None:
        self.cycles: list[list[Message]] = []
        self.has_room = True
        self.acknowledged = 0

    @property
    def room(self) -> int:
        return 1_000_000 if self.has_room else 0

    def publish(self, messages: Sequence[Message]) -> int:
        if not self.has_room:
            raise UnavailableError("no room")
        self.cycles.append(list(messages))
        return len(self.cycles)

    async def wait_acknowledged(self, ticket: int) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Rig:
    def __init__(self, partitions: Sequence[int] = (7,), catch_up_per_s: float = 1_000) -> None:
        self.now_ms = float(NOON_MS - 1)
        self.broker = Broker()
        self.ledger = Ledger()
        self.holdings = {partition: Holding(8, NOON_MS - 1) for partition in partitions}
        self.ticker = Ticker(
            self.holdings, self.ledger, self.broker, now_ms=lambda: self.now_ms, catch_up_per_s=catch_up_per_s
        )
        for partition in partitions:
            self.ledger.enter(partition, 1)

    def tick(self, now_ms: int) -> list[int]:
        """Advance and return the scheduled times that were published, from noon."""
        self.now_ms = NOON_MS + now_ms
        before = len(self.broker.cycles)
        self.ticker.tick(horizon_xid=5)
        messages = [message for cycle in self.broker.cycles[before:] for message in cycle]
        return [fire.scheduled_ms - NOON_MS for fire in fires(messages)]

    def marks(self) -> dict[int, int]:
        return {mark.partition: mark.fired_through_ms - NOON_MS for mark in self.ledger.watermarks()}


def test_t_follows_the_acknowledged_ticks() -> None:
    rig = Rig()
    rig.holdings[7].take_jobs([every(1_000)], NEW)
    assert rig.tick(0) == [0]
    assert rig.tick(500) == []
    assert rig.marks() == {}
    rig.ticker.acknowledged(1)
    assert rig.marks() == {7: 500}


def test_without_room_nothing_advances_and_nothing_is_dropped() -> None:
    rig = Rig()
    rig.holdings[7].take_jobs([every(1_000)], NEW)
    rig.broker.has_room = False
    assert rig.tick(0) == []
    assert rig.tick(3_000) == []
    assert rig.marks() == {}
    rig.broker.has_room = True
    assert rig.tick(3_500) == [0, 1_000, 2_000, 3_000]
    rig.ticker.acknowledged(2)
    assert rig.marks() == {7: 3_500}


def test_the_backlog_follows_at_its_rate_and_pins_only_its_own_partition() -> None:
    rig = Rig(partitions=(7, 8), catch_up_per_s=10)
    # Nothing ran for ten minutes; then every second something is due as well.
    rig.holdings[7].take_jobs([every(10_000, misfire="fire_all")], NEW)
    rig.holdings[8].take_jobs([every(1_000, misfire="skip", partition=8)], NEW)
    start = 600_000
    rig.tick(start)
    rig.ticker.acknowledged(len(rig.broker.cycles))
    backlog = rig.ticker.backlog
    assert backlog > 50
    assert rig.marks().get(7) is None
    published = 0
    for step in range(1, 9):
        times = rig.tick(start + step * 1_000)
        assert start + step * 1_000 in times
        published += len(times)
        rig.ticker.acknowledged(len(rig.broker.cycles))
    assert rig.ticker.backlog == 0
    assert rig.marks()[7] == rig.marks()[8] == start + 8_000


def test_a_dropped_partition_takes_its_backlog_along() -> None:
    rig = Rig(partitions=(7, 8), catch_up_per_s=1)
    for partition in (7, 8):
        job = every(10_000, misfire="fire_all", partition=partition, job_id=bytes([partition]) * 16)
        rig.holdings[partition].take_jobs([job], NEW)
    rig.tick(300_000)
    before = rig.ticker.backlog
    del rig.holdings[7]
    rig.ledger.leave(7)
    rig.ticker.drop(7)
    assert rig.ticker.backlog == before // 2
    rig.tick(2_000_000)
    rig.tick(2_100_000)
    rig.ticker.acknowledged(len(rig.broker.cycles))
    assert 7 not in rig.marks()


def test_a_late_job_goes_out_at_the_next_tick() -> None:
    rig = Rig()
    rig.tick(5_000)
    rig.holdings[7].take_jobs([once(NOON_MS + 1_000)], NEW)
    assert rig.tick(5_001) == [1_000]


def test_what_nobody_acknowledges_is_seen_to_grow_old() -> None:
    rig = Rig()
    rig.holdings[7].take_jobs([every(1_000)], NEW)
    rig.tick(0)
    rig.tick(5_500)
    assert OLDEST_DUE._value.get() == 5.5
    rig.broker.has_room = False
    rig.ticker.acknowledged(2)
    rig.tick(6_000)
    rig.tick(9_000)
    assert OLDEST_DUE._value.get() == 3.0
    rig.broker.has_room = True
    rig.tick(9_500)
    rig.ticker.acknowledged(4)
    assert OLDEST_DUE._value.get() == 0.0
