"""What every service process has in common: its door, its health, its end.

A service is a set of named loops in one nursery. SIGTERM or SIGINT asks it to stop: `stopping` is set,
the loops finish what they hold (a shard hands over, a worker ends its runs), and after `stop_limit_s`
the rest is cancelled. `/healthz` answers 200 while every part says it is well, else 503 with each
part's reason: the engineer at 3 a.m. reads it first.
"""

from __future__ import annotations

import gc
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable

import msgspec
import trio

from shardwheel.http import Answer, Route, address_of, listen, metrics_route, serve
from shardwheel.logs import get_logger

# How long a thread at work keeps the interpreter from one that wants it. At Python's default of 5 ms, every
# answer of PostgreSQL or Kafka, which a thread waits for, could stand for so long behind the event loop, and
# every event behind such a thread.
SWITCH_S = 0.0005


def quieten_collector() -> None:
    """Let Python's collector walk little, and rarely. For a process that is set up and about to work.

    What the process is made of stays, so no collection need walk it. And a tick or a batch makes tens of
    thousands of small tuples and dicts that die at once, none of them in a circle: to look for circles after
    every 700 of them, as is the default, took a quarter of a fire's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


class Health:
    """The present state of a service's parts: None is well, a text is what is wrong. What is well may come
    with a remark all the same: late, but at work."""

    def __init__(self) -> None:
        self.parts: dict[str, str | None] = {}
        self._remarks: dict[str, str] = {}

    def well(self, part: str, remark: str = "ok") -> None:
        self.parts[part] = None
        self._remarks[part] = remark

    def unwell(self, part: str, reason: str) -> None:
        self.parts[part] = reason

    async def route(self, _body: bytes) -> Answer:
        healthy = all(reason is None for reason in self.parts.values())
        parts = {part: reason or self._remarks[part] for part, reason in self.parts.items()}
        body = msgspec.json.encode({"status": "ok" if healthy else "unwell", "parts": parts})
        return Answer(200 if healthy else 503, body)


class Service:
    """One service process: add loops and routes, then `run` until a signal, `stop`, or a loop's failure."""

    def __init__(
        self,
        role: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        address: str = "",
        tls: ssl.SSLContext | None = None,
        stop_limit_s: float = 30.0,
    ) -> None:
        """`address`: of a door that a loop keeps itself; then none is opened here."""
        self.role = role
        self.health = Health()
        self.stopping = trio.Event()
        self.address = address
        self._listeners: list[trio.SocketListener] = []
        self._host = host
        self._port = port
        self._tls = tls
        self._stop_limit_s = stop_limit_s
        self._loops: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._routes: dict[tuple[str, str], Route] = {
            ("GET", "/metrics"): metrics_route,
            ("GET", "/healthz"): self.health.route,
        }
        self._log = get_logger(role=role)

    def add_loop(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """A loop runs until `stopping` is set and then returns by itself."""
        self._loops.append((name, loop))

    def add_route(self, method: str, path: str, route: Route) -> None:
        self._routes[method, path] = route

    def stop(self) -> None:
        self.stopping.set()

    async def open(self) -> None:
        """Listen, so that `address` is known before the loops start and can be announced by them."""
        self._listeners = await listen(self._host, self._port)
        self.address = address_of(self._listeners[0])

    async def run(self) -> None:
        """Run every loop until all have returned. A loop that raises ends the process: it is a broken
        invariant, and whoever supervises starts it anew with a fresh identity."""
        sys.setswitchinterval(SWITCH_S)
        if not self.address:
            await self.open()
        async with trio.open_nursery() as outer:
            await outer.start(self._watch_signals)
            if self._listeners:
                outer.start_soon(serve, self._routes, self._listeners, self._tls)
            self._log.info("started", address=self.address)
            async with trio.open_nursery() as loops:
                for _, loop in self._loops:
                    loops.start_soon(_call, loop)
                loops.start_soon(self._limit_the_end, loops.cancel_scope)
                await self.stopping.wait()
            outer.cancel_scope.cancel()
        self._log.info("stopped")

    async def _watch_signals(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for number in signals:
                if self.stopping.is_set():
                    continue
                self._log.info("stopping", signal=signal.Signals(number).name)
                self.stop()

    async def _limit_the_end(self, scope: trio.CancelScope) -> None:
        await self.stopping.wait()
        scope.deadline = trio.current_time() + self._stop_limit_s


async def _call(loop: Callable[[], Awaitable[None]]) -> None:
    await loop()
