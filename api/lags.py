"""How much waits in Kafka for each pool of workers: asked once for all who want to know at the same time.

Kafka may take seconds to answer, or never do. Whoever waits for it does so in threads of its own, one a pool,
so that nobody else waits: those who store large batches want threads too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from shardwheel.job import Pool

KEPT_S = 1.0


class Lags:
    """Belongs to the HTTP server's event loop. `ask` waits for Kafka; None: it is not known."""

    def __init__(self, ask: Callable[[str], int | None], now_s: Callable[[], float]) -> None:
        self._ask = ask
        self._now_s = now_s
        self._threads = ThreadPoolExecutor(len(Pool), thread_name_prefix="lag")
        self._known: dict[str, tuple[float, int | None]] = {}
        self._asked: dict[str, asyncio.Task[int | None]] = {}

    async def of(self, pool: str) -> int | None:
        """As of a second ago at most."""
        known_at_s, lag = self._known.get(pool, (float("-inf"), None))
        if self._now_s() < known_at_s + KEPT_S:
            return lag
        if pool not in self._asked:
            self._asked[pool] = asyncio.create_task(self._find(pool))
        # Whoever goes away meanwhile does not take the others' answer along.
        return await asyncio.shield(self._asked[pool])

    async def _find(self, pool: str) -> int | None:
        begun_at_s = self._now_s()
        try:
            lag = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, pool)
        finally:
            del self._asked[pool]
        # What took long is kept as long after it: without Kafka not everybody has to wait in turn.
        self._known[pool] = (begun_at_s if lag is not None else self._now_s()), lag
        return lag
