"""Which service processes a stack has: a table, a line each.

A service is a `shardctl` command in a process of its own. It finds servers and secret as any command does, by
the stack's data folder; only its door (`/healthz`, `/metrics`) is chosen here, so that its address is known
before it is up. To add a service to the stack, add a line to SERVICES.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx

from shardwheel.compose import ports
from shardwheel.compose.child import Child
from shardwheel.compose.server import tied
from shardwheel.errors import UsageError
from shardwheel.settings import ENVIRONMENT_PREFIX, Settings

PROBE_LIMIT_S = 5.0
# A service gives itself 30 s to finish what it holds (service.py); it is killed a little later.
STOP_LIMIT_S = 35.0


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asked `shardctl dev` for."""

    folder: Path
    settings: Settings
    shards: int = 1
    workers: int = 1


class ServiceLine(NamedTuple):
    """A role, which is also the command's name; how many processes of it a wish asks for; its arguments; the
    port of a service that people look for at a known place (0: any free one)."""

    role: str
    count: Callable[[Wish], int]
    arguments: tuple[str, ...] = ()
    port: Callable[[Wish], int] = lambda wish: 0


def _workers(wish: Wish) -> int:
    """Without handlers a worker has nothing to run."""
    return wish.workers if wish.settings.handlers else 0


SERVICES: tuple[ServiceLine, ...] = (
    ServiceLine("results", lambda wish: 1),
    ServiceLine("worker", _workers, ("--pool", "short")),
    ServiceLine("worker", _workers, ("--pool", "medium")),
    ServiceLine("worker", _workers, ("--pool", "long")),
    ServiceLine("shard", lambda wish: wish.shards),
    ServiceLine("api", lambda wish: 1, port=lambda wish: wish.settings.http_port),
    ServiceLine("alerts", lambda wish: 1),
)


def service_children(wish: Wish) -> list[Child]:
    """A child for each service process of the wish."""
    return [
        _child(line, "-".join([line.role, *line.arguments[1::2], str(number)]), wish)
        for line in SERVICES
        for number in range(1, line.count(wish) + 1)
    ]


def _door(line: ServiceLine, wish: Wish) -> int:
    port = line.port(wish)
    if port and not ports.is_free(port):
        raise UsageError(f"port {port} is taken: stop what listens there, or choose another with --http")
    return port or ports.choose()


def _child(line: ServiceLine, name: str, wish: Wish) -> Child:
    port = _door(line, wish)
    address = f"{ports.LOOPBACK}:{port}"
    return Child(
        role=line.role,
        id=name,
        argv=tuple(tied([sys.executable, "-P", "-m", "shardwheel.cli", line.role, *line.arguments])),
        environment=_environment(wish, port),
        log_path=wish.folder / "logs" / f"{name}.log",
        ready=lambda: is_healthy(port),
        # Handlers and shardwheel.toml are looked for where the user stands.
        folder=Path.cwd(),
        address=address,
        stop_limit_s=STOP_LIMIT_S,
    )


def _environment(wish: Wish, port: int) -> dict[str, str]:
    own = {"DATA": str(wish.folder), "HTTP_HOST": ports.LOOPBACK, "HTTP_PORT": str(port)}
    if wish.settings.handlers:
        own["HANDLERS"] = wish.settings.handlers
    return {**os.environ, **{ENVIRONMENT_PREFIX + name: value for name, value in own.items()}}


async def is_healthy(port: int) -> bool:
    """Whether there is somebody who says that all is well."""
    # Making an HTTP client costs far more than a look whether anybody listens at all.
    if not ports.accepts(port):
        return False
    url = f"http://{ports.LOOPBACK}:{port}/healthz"
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=PROBE_LIMIT_S) as client:
            return (await client.get(url)).status_code == 200
    except httpx.HTTPError:
        return False
