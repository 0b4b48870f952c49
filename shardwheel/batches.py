"""Take → work → commit, batch after batch: the way of everyone who consumes a topic.

A batch's offsets are committed after its work, never before, and in the order in which they were taken.
Nobody waits for the broker's word that it has stored them: what is due next would wait as long. It is sent
with the next take, and confirmed while that waits.
While batches come full there is a backlog, and the steps overlap: the next batch is taken, and the last one
committed, while this one is worked on. A batch that is not full is worked on before anyone waits for more:
what nobody waits for is not left uncommitted.

    backlog   take 1 │ work 1          │ work 2            │ work 3
                     │ take 2          │ commit 1, take 3  │ commit 2, take 4
    calm      take 1 │ work 1 │ commit 1, take 2 (waits)

Work may take as long as it likes: whoever waits for it stays a member of the group, paused. (Pausing discards
what was fetched ahead, so a second passes first.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from shardwheel.errors import UnavailableError
from shardwheel.logs import get_logger
from shardwheel.ports import Consumer, Record

# Returns how many of the records, from the first on, were dealt with; None: all of them.
Work = Callable[[Sequence[Record]], Awaitable[int | None]]
STAY_S = 1.0


def halved(most: int) -> int:
    """How much to try at once, after so much of it failed: one transaction may take only so long, and what
    follows from a batch in DAGs may be much."""
    return max(1, most // 2)


class Batches:
    """One consumer's batches. One is worked on at a time, by a task in the nursery."""

    def __init__(self, consumer: Consumer, work: Work, nursery: trio.Nursery) -> None:
        self._consumer = consumer
        self._work = work
        self._nursery = nursery
        self._done: Sequence[Record] = ()
        self._partly: Sequence[Record] = ()
        self._idle = trio.Event()
        self._idle.set()
        self._log = get_logger(part="batches")

    async def step(self, most: int, wait_s: float) -> int:
        """Take a batch of up to `most` and begin its work; returns its size."""
        records = await self._consumer.take(most, wait_s)
        done = await self._worked()
        if records:
            self._begin(records)
        if len(records) < most:
            done = [*done, *await self._worked()]
        self._consumer.commit_soon(done)
        return len(records)

    def dealt_with(self, records: Sequence[Record]) -> None:
        """Said by work that takes long: these of its records may be committed before the rest."""
        self._partly = records

    async def close(self) -> None:
        """Wait for what is in work, commit it and whatever is owed, and leave the group."""
        try:
            await self._consumer.commit(await self._worked())
        except UnavailableError as error:
            # A replay of these batches changes nothing.
            self._log.warning("commits are lost", reason=str(error))
        finally:
            await self._consumer.close()

    def _begin(self, records: Sequence[Record]) -> None:
        self._idle = trio.Event()
        self._nursery.start_soon(self._do, records, self._idle)

    async def _do(self, records: Sequence[Record], idle: trio.Event) -> None:
        self._done = records[: await self._work(records)]
        idle.set()

    async def _worked(self) -> Sequence[Record]:
        """Wait for the work in hand; returns the records that may be committed now."""
        while not self._idle.is_set():
            with trio.move_on_after(STAY_S) as waited:
                await self._idle.wait()
            if waited.cancelled_caught:
                self._consumer.pause()
                await self._consumer.take(1, 0)
                partly, self._partly = self._partly, ()
                self._consumer.commit_soon(partly)
        self._consumer.resume()
        done, self._done, self._partly = self._done, (), ()
        return done
