"""Slots: how many attempts a worker holds, and the queue for them when they are all taken.

A slot is asked for before the claim, by the priority that has messages in hand, and freed when the attempt
has ended or the claim got nothing for it. While there is room nobody waits. Scarce slots are dealt out by
`sharing`, a moment after they come free: so they go out in handfuls, with one claim for each.
"""

from __future__ import annotations

import trio

from shardwheel.job import Priority
from shardwheel.workers.sharing import Sharing

WEIGHTS = {Priority.CRITICAL: 8, Priority.HIGH: 4, Priority.NORMAL: 2, Priority.LOW: 1}
# Many more come free meanwhile, if they are of short attempts; and of long ones nobody feels it.
GATHER_S = 0.01


class _Wish:
    """Somebody waits for up to `most` slots."""

    __slots__ = ("answered", "given", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.given = 0
        self.answered = trio.Event()


class Slots:
    def __init__(self, total: int) -> None:
        self.total = total
        self._sharing = Sharing(list(WEIGHTS.values()))
        self._wishes: dict[Priority, _Wish] = {}
        self._closed = False
        self._freed = trio.Event()
        self.taken = 0

    async def take(self, priority: Priority, most: int) -> int:
        """Wait for at least one slot and take up to `most`; 0 when nothing more is to be taken. Of one
        priority one waits at a time, the others for that one."""
        while other := self._wishes.get(priority):
            await other.answered.wait()
        if self._closed:
            return 0
        if not self._wishes and self.taken + most <= self.total:
            self.taken += most
            return most
        wish = self._wishes[priority] = _Wish(most)
        self._freed.set()
        try:
            await wish.answered.wait()
        except trio.Cancelled:
            self._wishes.pop(priority, None)
            self.free(wish.given)
            wish.answered.set()
            raise
        return wish.given

    def free(self, count: int) -> None:
        self.taken -= count
        self._freed.set()

    def close(self) -> None:
        """Whoever waits, or comes later, gets nothing."""
        self._closed = True
        self._answer(dict.fromkeys(self._wishes, 0))

    async def run(self) -> None:
        """Deal out what is freed; until cancelled."""
        while True:
            await self._freed.wait()
            await trio.sleep(GATHER_S)
            self._freed = trio.Event()
            self._deal()

    def _deal(self) -> None:
        free = self.total - self.taken
        if not self._wishes or free <= 0:
            return
        wanted = [wish.most if (wish := self._wishes.get(one)) else 0 for one in WEIGHTS]
        shares = zip(WEIGHTS, self._sharing.share(wanted, free), strict=True)
        self._answer({priority: given for priority, given in shares if given > 0})

    def _answer(self, shares: dict[Priority, int]) -> None:
        for priority, given in shares.items():
            wish = self._wishes.pop(priority)
            wish.given = given
            self.taken += given
            wish.answered.set()

    async def until_free(self) -> None:
        """Wait until nothing is taken any more."""
        while self.taken:
            if self._freed.is_set():
                self._freed = trio.Event()
            await self._freed.wait()
