"""Both clients behind one way of calling them, so that one suite tries them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from shardwheel import AsyncClient, Client

KINDS = ("blocking", "trio", "asyncio")


class Driver:
    """`driver.get_job(…)` calls the client's method and waits for it; a listing comes as a list."""

    def __init__(self, client: Client | AsyncClient, portal: BlockingPortal | None) -> None:
        self.client = client
        self._portal = portal

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._portal is None:
                return _gathered(getattr(self.client, name)(*args, **kwargs))
            return self._portal.call(_awaited, self.client, name, args, kwargs)

        return call


def _gathered(answer: Any) -> Any:
    return list(answer) if isinstance(answer, Iterator) else answer


async def _awaited(client: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    answer = getattr(client, name)(*args, **kwargs)
    return [item async for item in answer] if hasattr(answer, "__aiter__") else await answer


@contextmanager
def driving(kind: str, *args: Any, **kwargs: Any) -> Iterator[Driver]:
    if kind == "blocking":
        with Client(*args, **kwargs) as client:
            yield Driver(client, None)
    else:
        with start_blocking_portal(kind) as portal:
            driver = Driver(AsyncClient(*args, **kwargs), portal)
            try:
                yield driver
            finally:
                driver.aclose()
