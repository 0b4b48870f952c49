"""Cycles on their way to the broker: tickets, the bounded buffer, and the acknowledged prefix.

What the real producer and its in-memory twin share, so that both count alike. Cycles published since the
last departure travel together as one *flight*; a flight is acknowledged as a whole. So a thousand cycles
of one message cost what one cycle of a thousand costs:

    take([a]) -> 1   take([b, c]) -> 2   depart() -> flight(a, b, c; last_ticket=2)
    take([])  -> 3                       depart() -> flight(; last_ticket=3)
    flight 1 lands, settle()             acknowledged: 2, then 3, since nothing keeps the empty one back

It sends nothing, reads no clock and belongs to one trio thread: there is no lock, and no moment at which
`acknowledged` says more than the observer was told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import trio

from shardwheel.errors import UnavailableError, UsageError
from shardwheel.ports import Message

# Kafka's own default (message.max.bytes, of client and broker alike), less what surrounds a value.
LARGEST_VALUE_BYTES = 1_000_000 - 1_000


class Flight:
    """Cycles that travel together. Who carries it sets `landed` once all its messages are acknowledged."""

    __slots__ = ("landed", "last_ticket", "messages")

    def __init__(self, last_ticket: int, messages: list[Message]) -> None:
        self.last_ticket = last_ticket
        self.messages = messages
        self.landed = not messages


class Cycles:
    """The ledger of one producer."""

    def __init__(self, most: int, on_acknowledged: Callable[[int], None] | None = None) -> None:
        self._most = most
        self._on_acknowledged = on_acknowledged
        self._gathered: list[Message] = []
        self._gathered_ticket = 0
        self._departed_ticket = 0
        self._flights: deque[Flight] = deque()
        self._buffered = 0
        self._acknowledged = 0
        self._waiters = trio.lowlevel.ParkingLot()
        self._closed = False

    @property
    def last_ticket(self) -> int:
        return self._gathered_ticket

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    @property
    def settled(self) -> bool:
        """Is everything that was taken acknowledged?"""
        return self._acknowledged == self._gathered_ticket

    @property
    def room(self) -> int:
        return max(0, self._most - self._buffered)

    @property
    def gathered(self) -> int:
        """How many messages wait for the next departure."""
        return len(self._gathered)

    @property
    def under_way(self) -> list[Flight]:
        """What has departed and not landed, in order."""
        return [flight for flight in self._flights if not flight.landed]

    def take(self, messages: Sequence[Message]) -> int:
        count, buffered = len(messages), self._buffered
        if self._closed:
            raise UsageError("the producer is closed")
        if buffered and buffered + count > self._most:
            raise UnavailableError(
                f"no room for {count} messages: {buffered} of {self._most} wait for the broker"
            )
        for message in messages:
            if len(message[3]) > LARGEST_VALUE_BYTES:
                raise UsageError(f"a message is over {LARGEST_VALUE_BYTES} bytes: no broker would take it")
        self._gathered += messages
        self._buffered = buffered + count
        self._gathered_ticket += 1
        return self._gathered_ticket

    def depart(self) -> Flight | None:
        """All that was taken since the last departure, if anything was."""
        if self._departed_ticket == self._gathered_ticket:
            return None
        flight = Flight(self._gathered_ticket, self._gathered)
        self._flights.append(flight)
        self._gathered = []
        self._departed_ticket = self._gathered_ticket
        return flight

    def settle(self) -> bool:
        """Move the acknowledged prefix over what has landed: observer first, then whoever waits."""
        ticket = self._acknowledged
        while self._flights and self._flights[0].landed:
            flight = self._flights.popleft()
            self._buffered -= len(flight.messages)
            ticket = flight.last_ticket
        if ticket == self._acknowledged:
            return False
        if self._on_acknowledged is not None:
            self._on_acknowledged(ticket)
        self._acknowledged = ticket
        self._waiters.unpark_all()
        return True

    async def wait_acknowledged(self, ticket: int) -> None:
        await trio.lowlevel.checkpoint()
        while self._acknowledged < ticket:
            if self._closed:
                raise UnavailableError("the producer was closed before that was acknowledged")
            await self._waiters.park()

    def close(self) -> None:
        """Take nothing more, and let nobody wait for what can't come any more."""
        self._closed = True
        self._waiters.unpark_all()
