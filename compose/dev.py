"""The embedded stack: real PostgreSQL, etcd and Kafka from packages, and our services beside them.

    async with open_stack(Wish(folder=…, settings=…), say=print) as stack:
        stack.settings.postgres_dsn      # everything is up, migrated, and has its topics

What the settings point elsewhere is not started here. The data survives whatever ends the stack; two stacks
on two folders do not meet. Nothing here reads flags or the environment: see commands.py.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from shardwheel.compose import jars, process, warm
from shardwheel.compose.child import Child
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.furnish import furnish
from shardwheel.compose.kafka import KafkaServer
from shardwheel.compose.postgres import PostgresServer
from shardwheel.compose.remedy import remedy_of
from shardwheel.compose.server import Server
from shardwheel.compose.services import Wish, service_children
from shardwheel.compose.stack import last_stack, make_folder, secret_of, sole_supervisor, write_stack
from shardwheel.compose.state import Process
from shardwheel.compose.supervisor import Board, plain_errors, supervised
from shardwheel.settings import Settings

# How long the processes of a supervisor that was killed may take to follow it.
LEFTOVER_LIMIT_S = 20.0
SERVER_STOP_LIMIT_S = 30.0
_OWN = frozenset({"data", "cache", "handlers", "http_host", "http_port", "log_format", "log_level", "zone"})


@dataclass(frozen=True)
class RunningStack:
    """What whoever opened the stack sees of it; `processes` changes while it runs."""

    folder: Path
    settings: Settings
    processes: list[Process]


@asynccontextmanager
async def open_stack(wish: Wish, say: Callable[[str], None]) -> AsyncIterator[RunningStack]:
    """Start everything, go on when all of it is healthy, and stop it at the end, services first."""
    folder = make_folder(wish.folder)
    with sole_supervisor(folder):
        await _outlive_leftovers(folder)
        this = supervisor_row(folder)
        _record(folder, {}, say, [this])
        servers = embedded_servers(folder, wish.settings)
        say(f"starting {', '.join(servers) or 'no server of our own'} on {folder}")
        await _prepare(servers)
        wish = replace(wish, folder=folder, settings=reaching(wish.settings, servers, secret_of(folder)))
        board = Board(say, partial(_record, folder, _shared(wish.settings), say))
        board.add(this)
        async with supervised([server_child(role, server) for role, server in servers.items()], board):
            await furnish(wish.settings, say)
            async with supervised(service_children(wish), board):
                yield RunningStack(folder, wish.settings, board.processes)


def supervisor_row(folder: Path) -> Process:
    """The stack's first process: this one."""
    log_path = folder / "logs" / "supervisor.log"
    return Process("supervisor", "supervisor", os.getpid(), "", str(log_path), state="running")


def embedded_servers(folder: Path, settings: Settings) -> dict[str, Server]:
    """By role, those that the settings do not point elsewhere."""
    servers: dict[str, Server] = {}
    if not settings.postgres_dsn:
        servers["postgres"] = PostgresServer(folder / "postgres")
    if not settings.etcd_endpoints:
        servers["etcd"] = EtcdServer(folder / "etcd")
    if not settings.kafka_bootstrap:
        servers["kafka"] = KafkaServer(folder / "kafka")
    return servers


def reaching(settings: Settings, servers: dict[str, Server], secret: str) -> Settings:
    """The settings with which everything is reached: what was pointed elsewhere stays as it is."""
    # One-way: whoever is given the one that signs callbacks can't sign tokens with it.
    callback_secret = settings.callback_secret or hmac.digest(secret.encode(), b"callbacks", "sha256").hex()
    found: dict[str, Any] = {"secret": settings.secret or secret, "callback_secret": callback_secret}
    for server in servers.values():
        match server:
            case PostgresServer():
                found["postgres_dsn"] = server.dsn
            case EtcdServer():
                found["etcd_endpoints"] = (server.endpoint,)
            case KafkaServer():
                found["kafka_bootstrap"] = server.bootstrap
    return msgspec.structs.replace(settings, **found)


def server_child(role: str, server: Server) -> Child:
    launch = server.launch()

    async def ready() -> bool:
        return await trio.to_thread.run_sync(server.ready, abandon_on_cancel=True)

    return Child(
        role=role,
        id=role,
        argv=launch.argv,
        environment=launch.environment,
        log_path=server.log_path,
        ready=ready,
        address=server.address,
        stop_signal=server.stop_signal,
        stop_limit_s=SERVER_STOP_LIMIT_S,
    )


async def _prepare(servers: dict[str, Server]) -> None:
    """Make their data folders, all at once: initdb and Kafka's format take seconds the first time."""
    with plain_errors():
        async with trio.open_nursery() as nursery:
            for server in servers.values():
                # Abandoned when the user gives up: a download may take long, and goes on where it stopped.
                prepare = partial(trio.to_thread.run_sync, _prepare_one, server, abandon_on_cancel=True)
                nursery.start_soon(prepare)


def _prepare_one(server: Server) -> None:
    if isinstance(server, KafkaServer):
        jars.ensure()
        warm.ensure()
    server.prepare()
    server.check_port()


async def _outlive_leftovers(folder: Path) -> None:
    """Wait for what a killed supervisor left, and kill what stays: it holds the data and the ports."""
    last = last_stack(folder)
    if last is None:
        return
    with trio.move_on_after(LEFTOVER_LIMIT_S):
        while last.alive():
            await trio.sleep(0.05)
    for pid in last.alive():
        await trio.to_thread.run_sync(process.kill_tree, pid)


def _shared(settings: Settings) -> dict[str, Any]:
    """With what anybody reaches the stack; what belongs to one process is left out."""
    values = msgspec.to_builtins(settings)
    return {name: value for name, value in values.items() if name not in _OWN}


def _record(
    folder: Path, settings: dict[str, Any], say: Callable[[str], None], processes: list[Process]
) -> None:
    """Keep stack.json true. A full disk must not end what runs: it is said, and tried again next time."""
    try:
        write_stack(folder, settings, processes)
    except OSError as error:
        say(f"stack.json could not be written: {error.strerror}; {remedy_of(error)}")
