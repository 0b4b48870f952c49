"""Retiring walks to the end with a rest between two batches, and begins anew."""

from __future__ import annotations

from datetime import timedelta

import trio
from trio.testing import MockClock

from shardwheel.errors import UnavailableError
from shardwheel.keeping import Keep
from shardwheel.results.retiring import Retiring
from shardwheel.service import Service
from shardwheel.store.retention import FROM_THE_OLDEST, OTHERS, Retired

KEEP = Keep(*[timedelta(days=7)] * 5)


class Tables:
    """Three batches of executions, and of the rest one batch each."""

    def __init__(self) -> None:
        self.walked: list[bytes] = []
        self.rest = dict.fromkeys(OTHERS, 5)
        self.away = False

    async def retire_executions(self, keep: Keep, after: bytes) -> Retired:
        if self.away:
            raise UnavailableError("away")
        self.walked.append(after)
        number = len(self.walked) % 3
        return Retired(10, bytes([number]) * 16 if number else None)

    async def retire_others(self, name: str, keep: Keep) -> int:
        count, self.rest[name] = self.rest[name], 0
        return count

    async def drop_empty_months(self, keep: Keep) -> list[str]:
        return []


def test_a_walk_goes_through_everything_and_begins_anew() -> None:
    async def main() -> None:
        service, tables = Service("results"), Tables()
        tables.away = True
        retiring = Retiring(service, tables, KEEP)
        retiring.add_to_service()
        async with trio.open_nursery() as nursery:
            for _, loop in service._loops:
                nursery.start_soon(loop)
            await trio.sleep(1)
            assert service.health.parts == {"retention": "away"}
            tables.away = False
            await trio.sleep(100)
            assert service.health.parts == {"retention": None}
            assert set(tables.rest.values()) == {0}
            await trio.sleep(100)
            service.stop()
        once = [FROM_THE_OLDEST, bytes([1]) * 16, bytes([2]) * 16]
        assert tables.walked[:6] == [*once, *once]

    trio.run(main, clock=MockClock(autojump_threshold=0))
