"""Lags of pools: asked once for all, kept for a second, and nobody else's threads."""

from __future__ import annotations

import asyncio
import threading

from shardwheel.api.lags import KEPT_S, Lags
from shardwheel.job import Pool


def test_all_who_ask_at_once_share_an_answer_and_it_gets_old() -> None:
    asked, now_s = list[str](), [0.0]

    def ask(pool: str) -> int:
        asked.append(pool)
        return len(asked)

    async def main() -> None:
        lags = Lags(ask, lambda: now_s[0])
        assert await asyncio.gather(*(lags.of("short") for _ in range(100))) == [1] * 100
        assert (await lags.of("short"), await lags.of("long")) == (1, 2)
        now_s[0] += KEPT_S
        assert await lags.of("short") == 3

    asyncio.run(main())


def test_what_is_not_known_is_not_asked_again_at_once() -> None:
    asked, now_s = list[str](), [0.0]

    def ask(pool: str) -> None:
        """Kafka is away: it takes its time to find out."""
        asked.append(pool)
        now_s[0] += 3.0

    async def main() -> None:
        lags = Lags(ask, lambda: now_s[0])
        assert [await lags.of("short") for _ in range(3)] == [None] * 3
        assert asked == ["short"]

    asyncio.run(main())


def test_who_waits_for_kafka_holds_up_nobody() -> None:
    go_on, held = threading.Event(), threading.Semaphore(0)

    def ask(pool: str) -> int:
        held.release()
        assert go_on.wait(60)
        return 7

    async def main() -> None:
        lags = Lags(ask, lambda: 0.0)
        waiting = [asyncio.create_task(lags.of(pool)) for pool in list(Pool) * 20]
        for _ in Pool:
            assert await asyncio.to_thread(held.acquire, timeout=60)
        assert await asyncio.to_thread(str, 1) == "1"
        waiting[0].cancel()
        go_on.set()
        assert await asyncio.gather(*waiting[1:]) == [7] * (len(waiting) - 1)
        assert not held.acquire(blocking=False)

    asyncio.run(main())
