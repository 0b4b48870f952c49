"""The tick: clock → wheels → messages → producer → ledger. Synchronous, and it never waits for the database.

What is due now goes first; what is caught up follows at a limited rate. When the producer has no room, the
tick's messages are kept and nothing advances until they are out: T stands still, lateness grows and is
measured, nothing is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from shardwheel.errors import UnavailableError
from shardwheel.metrics import FIRES, OLDEST_DUE, TICK_LATENCY
from shardwheel.ports import Message, Producer
from shardwheel.shard.holding import Holding
from shardwheel.shard.ledger import Ledger, Mark

# Entries poured ahead of their time per tick and wheel: enough to keep up with a million entries, and far
# less than a tick's time.
PREPARED_ENTRIES = 512


class Backlog:
    """Messages to be caught up, in order, and which partitions still have some here."""

    def __init__(self) -> None:
        self._queue: deque[tuple[int, Message]] = deque()
        self._left: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, messages: list[tuple[int, Message]]) -> None:
        """Messages, each with its partition."""
        self._queue.extend(messages)
        for partition, _ in messages:
            self._left[partition] = self._left.get(partition, 0) + 1

    def take(self, most: int) -> tuple[list[Message], list[int]]:
        """Up to so many messages, and the partitions that have none left."""
        taken: list[Message] = []
        emptied: list[int] = []
        while self._queue and len(taken) < most:
            partition, message = self._queue.popleft()
            left = self._left.get(partition)
            if left is None:
                continue  # It was dropped: its next owner publishes what is left of it.
            taken.append(message)
            self._left[partition] = left - 1
            if left == 1:
                del self._left[partition]
                emptied.append(partition)
        return taken, emptied

    def drop(self, partition: int) -> None:
        if self._left.pop(partition, None):
            self._queue = deque(item for item in self._queue if item[0] != partition)


class _Unsent(NamedTuple):
    messages: list[Message]
    emptied: list[int]
    mark: Mark
    oldest_due_ms: int


class Ticker:
    """One shard's tick. `now_ms` is a time that the database's clock has surely reached."""

    def __init__(
        self,
        holdings: Mapping[int, Holding],
        ledger: Ledger,
        producer: Producer,
        *,
        now_ms: Callable[[], float],
        catch_up_per_s: float = 5_000.0,
    ) -> None:
        self._holdings = holdings
        self._ledger = ledger
        self._producer = producer
        self._now_ms = now_ms
        self._catch_up_per_s = catch_up_per_s
        self._allowance = 0.0
        self._last_ms: float | None = None
        self._ticket = 0
        self._unsent: _Unsent | None = None
        self._backlog = Backlog()
        self._under_way: deque[tuple[int, int]] = deque()

    @property
    def backlog(self) -> int:
        return len(self._backlog)

    def drop(self, partition: int) -> None:
        """The partition is no longer ours: forget what is still to be caught up."""
        self._backlog.drop(partition)

    async def all_acknowledged(self) -> None:
        """Return once everything published is with the broker; the caller sets the time limit."""
        await self._producer.wait_acknowledged(self._ticket)

    def tick(self, horizon_xid: int) -> int:
        """Advance to now and publish what is due; returns how many messages went out."""
        now_ms = self._now_ms()
        if self._unsent is not None and not self._send(self._unsent):
            self._tell_oldest(now_ms)
            return 0
        self._earn(now_ms)
        mark = Mark(int(now_ms), horizon_xid)
        out, oldest_due_ms = self._advance(mark.fired_through_ms)
        caught_up, emptied = self._backlog.take(int(self._allowance))
        self._allowance -= len(caught_up)
        messages = out + caught_up
        sent = self._send(_Unsent(messages, emptied, mark, oldest_due_ms))
        self._tell_oldest(now_ms)
        self._prepare()
        return len(messages) if sent else 0

    def acknowledged(self, ticket: int) -> None:
        """The producer's word: this ticket and all before are with the broker."""
        self._ledger.acknowledge(ticket)
        now_ms = self._now_ms()
        while self._under_way and self._under_way[0][0] <= ticket:
            # One observation a tick, of its oldest fire: a tick of thousands must not pay for each.
            TICK_LATENCY.observe(max(0.0, now_ms - self._under_way.popleft()[1]) / 1000)
        self._tell_oldest(now_ms)

    def _tell_oldest(self, now_ms: float) -> None:
        """At every tick, not only when something is acknowledged: a broker that is away must show."""
        oldest_ms = now_ms if self._unsent is None else self._unsent.oldest_due_ms
        if self._under_way:
            oldest_ms = self._under_way[0][1]
        OLDEST_DUE.set(max(0.0, now_ms - oldest_ms) / 1000)

    def _advance(self, now_ms: int) -> tuple[list[Message], int]:
        out: list[Message] = []
        oldest_due_ms = now_ms
        to_catch_up: list[tuple[int, Message]] = []
        for holding in self._distinct():
            if holding.wheel.wake_ms <= now_ms:
                oldest_due_ms = min(oldest_due_ms, holding.due(now_ms, out, to_catch_up))
        for partition in {partition: None for partition, _ in to_catch_up}:
            self._ledger.pin(partition)
        self._backlog.add(to_catch_up)
        return out, oldest_due_ms

    def _distinct(self) -> Iterable[Holding]:
        """Every holding once: partitions that were loaded together share one."""
        return dict.fromkeys(self._holdings.values())

    def _send(self, unsent: _Unsent) -> bool:
        """Publish a tick and put it on record; false when the producer has no room for it."""
        if unsent.messages:
            try:
                self._ticket = self._producer.publish(unsent.messages)
            except UnavailableError:
                self._unsent = unsent
                return False
            FIRES.inc(len(unsent.messages))
            self._under_way.append((self._ticket, unsent.oldest_due_ms))
        self._unsent = None
        for partition in unsent.emptied:
            self._ledger.unpin(partition, self._ticket)
        self._ledger.tick(self._ticket, unsent.mark)
        return True

    def _earn(self, now_ms: float) -> None:
        """The catch-up rate as an allowance: at most a second's worth is saved up."""
        if self._last_ms is not None:
            earned = (now_ms - self._last_ms) / 1000 * self._catch_up_per_s
            self._allowance = min(self._allowance + earned, self._catch_up_per_s)
        self._last_ms = now_ms

    def _prepare(self) -> None:
        """Pour some entries ahead of their time."""
        for holding in self._distinct():
            holding.wheel.prepare(PREPARED_ENTRIES)
