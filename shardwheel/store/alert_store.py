"""The alert statements as one asynchronous object on a pool: what `shardctl alerts` is given."""

from __future__ import annotations

from collections.abc import Sequence

from shardwheel.alert import Alert, Delivery, Finding, TableFigures
from shardwheel.store import alerts, ownership
from shardwheel.store.link import Connection
from shardwheel.store.pool import Pool

MOST_OPEN = 10_000


class PostgresAlertStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def now_ms(self) -> float:
        return await self._pool.run(ownership.read_now_ms)

    async def take_watch(self, holder: str, lease_s: float) -> bool:
        return await self._pool.run(alerts.take_watch, holder, lease_s)

    async def leave_watch(self, holder: str) -> None:
        await self._pool.run(alerts.leave_watch, holder)

    async def figures(self) -> TableFigures:
        return await self._pool.run(alerts.read_figures)

    async def open_alerts(self) -> list[Alert]:
        return await self._pool.run(_open)

    async def store_look(self, holder: str, findings: Sequence[Finding], resolved: Sequence[bytes]) -> bool:
        return await self._pool.run(alerts.store_look, holder, findings, resolved)

    async def begin_deliveries(self, holder: str, receivers: Sequence[str]) -> list[Delivery]:
        return await self._pool.run(alerts.begin_deliveries, holder, receivers)

    async def end_delivery(self, delivery: Delivery, error: str | None) -> None:
        await self._pool.run(alerts.end_delivery, delivery, error)

    async def forget(self) -> int:
        return await self._pool.run(alerts.forget_alerts)


def _open(conn: Connection) -> list[Alert]:
    return alerts.list_alerts(conn, limit=MOST_OPEN)
