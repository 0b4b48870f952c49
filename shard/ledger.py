"""The ledger: how far each partition may be said to be fired, from ticks and acknowledgements. Pure.

A tick advances every owned partition to one time T, under one horizon X, and publishes under a ticket.
Once that ticket and all before it are acknowledged, T and X may be stored for every partition that took
part: they move only over a prefix of acknowledged ticks.

A partition whose missed times are being caught up at a limited rate is *pinned*: its T stays before the
tick that found them until the last of them is acknowledged. What is due now goes on meanwhile.

    tick  ticket  T      partition 7 pinned in tick 2, released under ticket 9
    1     5       100    acknowledged → 7 may store 100
    2     6       200    acknowledged → the others 200, 7 still 100
    …
    8     9       800    acknowledged → 7 may store 800, like the others
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from shardwheel.ports import Watermark


class Mark(NamedTuple):
    """All with a fire time up to T is acknowledged, and all changes below X had been applied."""

    fired_through_ms: int
    horizon_xid: int


class _Tick(NamedTuple):
    number: int
    ticket: int
    mark: Mark


class _Pin:
    """A partition that is being caught up: since which tick, under which ticket its last message went out,
    and what it may store until then."""

    def __init__(self, since: int, mark: Mark | None) -> None:
        self.since = since
        self.ticket: int | None = None
        self.mark = mark


class Ledger:
    def __init__(self) -> None:
        self._ticks: deque[_Tick] = deque()
        self._number = 0
        self._acknowledged = 0
        self._latest: _Tick | None = None
        self._epochs: dict[int, int] = {}
        self._since: dict[int, int] = {}
        self._stored: dict[int, Mark] = {}
        self._pins: dict[int, _Pin] = {}

    def enter(self, partition: int, epoch: int) -> None:
        """The partition takes part from the next tick on."""
        self.leave(partition)
        self._epochs[partition] = epoch
        self._since[partition] = self._number + 1

    def leave(self, partition: int) -> None:
        for kept in (self._epochs, self._since, self._stored, self._pins):
            kept.pop(partition, None)

    def tick(self, ticket: int, mark: Mark) -> None:
        """All owned partitions were advanced to this mark; what was due went out under `ticket` or before."""
        self._number += 1
        if self._ticks and self._ticks[-1].ticket == ticket and not self._is_border(self._number):
            self._ticks.pop()  # A tick that published nothing: this record does for both.
        self._ticks.append(_Tick(self._number, ticket, mark))
        self.acknowledge(self._acknowledged)

    def pin(self, partition: int) -> None:
        """The coming tick leaves some of the partition's messages to be caught up later."""
        pin = self._pins.get(partition)
        if pin is None:
            pin = self._pins[partition] = _Pin(self._number + 1, self._mark_of(partition))
        pin.ticket = None

    def unpin(self, partition: int, ticket: int) -> None:
        """The last of them went out under this ticket."""
        if partition in self._pins:
            self._pins[partition].ticket = ticket

    def acknowledge(self, ticket: int) -> None:
        """The broker has this ticket and every one before it."""
        self._acknowledged = max(self._acknowledged, ticket)
        while self._ticks and self._ticks[0].ticket <= self._acknowledged:
            self._latest = tick = self._ticks.popleft()
            for partition, pin in self._pins.items():
                if self._since[partition] <= tick.number < pin.since:
                    pin.mark = tick.mark
        over = [partition for partition, pin in self._pins.items() if self._is_over(pin)]
        for partition in over:
            del self._pins[partition]

    def watermarks(self) -> list[Watermark]:
        """What may be stored and was not stored yet."""
        found = []
        for partition, epoch in self._epochs.items():
            mark = self._mark_of(partition)
            if mark is not None and mark != self._stored.get(partition):
                found.append(Watermark(partition, epoch, mark.fired_through_ms, mark.horizon_xid))
        return found

    def reached_ms(self, partition: int) -> int | None:
        """Through which time it was surely fired; None before its first acknowledged tick."""
        mark = self._mark_of(partition) if partition in self._epochs else None
        return None if mark is None else mark.fired_through_ms

    def is_under(self, watermark: Watermark) -> bool:
        """Whether the partition is still fired under this watermark's epoch."""
        return self._epochs.get(watermark.partition) == watermark.epoch

    def stored(self, watermarks: Iterable[Watermark]) -> None:
        """The store has taken these."""
        for mark in watermarks:
            if self.is_under(mark):
                self._stored[mark.partition] = Mark(mark.fired_through_ms, mark.horizon_xid)

    def _mark_of(self, partition: int) -> Mark | None:
        pin = self._pins.get(partition)
        if pin is not None:
            return pin.mark
        if self._latest is None or self._latest.number < self._since[partition]:
            return None
        return self._latest.mark

    def _is_over(self, pin: _Pin) -> bool:
        """Its last message is acknowledged, and so is a tick that holds it: the tick's mark counts again."""
        return (
            pin.ticket is not None
            and pin.ticket <= self._acknowledged
            and self._latest is not None
            and self._latest.number >= pin.since
        )

    def _is_border(self, number: int) -> bool:
        """A partition was pinned for this tick: it may store what the tick before reached, and no more."""
        return any(pin.since == number for pin in self._pins.values())
