"""The HTTP server: uvicorn on asyncio, in a thread of its own beside the service's trio.

Why this one: docs/decisions/0010. It listens on a socket that is opened here, so that a taken port is said
plainly and the address is known before anything runs. Asked to stop, it takes no new connection and finishes
the requests that are under way.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

import trio
import uvicorn

from shardwheel.api.app import App
from shardwheel.api.patience import PatientProtocol
from shardwheel.errors import UsageError
from shardwheel.service import Service

BACKLOG = 1_024
DRAIN_LIMIT_S = 20
IDLE_LIMIT_S = 60


def open_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} can't be listened on ({error.strerror}); choose another with --http-port",
            field="http_port",
        ) from error


class Uvicorn(uvicorn.Server):
    """uvicorn, that leaves nobody behind: its loop would wait at its close for connections that are still
    open, for as long as their clients please."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


def uvicorn_for(app: App, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    """No WebSockets, no life cycle, no log of its own: the service has those that it wants."""
    config = uvicorn.Config(
        app,
        loop="shardwheel.api.patience:PatientLoop",
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        # What is no HTTP is answered, not put on record line by line.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_LIMIT_S,
        timeout_graceful_shutdown=DRAIN_LIMIT_S,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    return Uvicorn(config)


class Server:
    """A loop of the service."""

    def __init__(
        self, service: Service, app: App, listener: socket.socket, tls: ssl.SSLContext | None = None
    ) -> None:
        self._service = service
        self._listener = listener
        self._uvicorn = uvicorn_for(app, tls)

    def add_to_service(self) -> None:
        self._service.add_loop("http", self._run)

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_when_asked)
            await trio.to_thread.run_sync(self._uvicorn.run, [self._listener])
            if not self._service.stopping.is_set():
                raise RuntimeError("the HTTP server ended by itself")
            nursery.cancel_scope.cancel()

    async def _stop_when_asked(self) -> None:
        await self._service.stopping.wait()
        self._uvicorn.should_exit = True
