"""`shardctl worker`: claims executions of one pool and runs their handlers."""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import Annotated

import trio
import typer

from shardwheel.clock import DatabaseClock
from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.edges import doors_of, open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.errors import UnavailableError
from shardwheel.handler import import_handlers, registry
from shardwheel.job import Pool
from shardwheel.logs import get_logger, set_up_logs
from shardwheel.pokes import Asked, Pokes
from shardwheel.service import Service, quieten_collector
from shardwheel.settings import Settings
from shardwheel.store.postgres import PostgresStore
from shardwheel.topics import job_topics, result_topics
from shardwheel.workers.isolated import Isolation
from shardwheel.workers.secrets import provider_of
from shardwheel.workers.worker import Worker

app = typer.Typer(add_completion=False)


@app.command()
def worker(
    handlers: Annotated[str | None, typer.Option(help="The module with your handlers (without .py).")] = None,
    pool: Annotated[Pool, typer.Option(help="Whose executions to run.")] = Pool.SHORT,
    slots: Annotated[int, typer.Option(help="How many executions at a time.", min=1)] = 1_000,
    threads: Annotated[int, typer.Option(help="How many of them in threads (plain functions).", min=1)] = 40,
    http_port: Annotated[
        int | None, typer.Option(help="Port of /metrics and /healthz (0: any free one).")
    ] = None,
    data: DataOption = None,
) -> None:
    """Run a worker until SIGTERM: then it ends what it holds, and gives back at once what it can't.

    Example:

        shardctl worker --handlers handlers --pool long
    """
    settings = current_settings(data, http_port=http_port, handlers=handlers)
    require(settings, "postgres_dsn", "kafka_bootstrap", "handlers")
    worker_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    set_up_logs(settings.log_level, settings.log_format, role="worker", worker=worker_id)
    import_handlers(settings.handlers)
    try:
        trio.run(_run, settings, worker_id, pool.value, slots, threads)
    except BaseExceptionGroup as group:
        raise unwrapped(group) from None


def unwrapped(error: BaseException) -> BaseException:
    """What nurseries wrapped, if it is one thing: a wrong setting is told as such, however deep it lay."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _run(settings: Settings, worker_id: str, pool_name: str, slots: int, threads: int) -> None:
    tls = doors_of(settings)
    service = Service("worker", host=settings.http_host, port=settings.http_port, tls=tls.server)
    await service.open()
    bus, results_bus = open_kafka(settings), open_results_kafka(settings)
    await bus.ensure_topics(job_topics(settings.topic_partitions))
    await results_bus.ensure_topics(result_topics(settings.topic_partitions))
    clock = DatabaseClock(time.monotonic)
    async with open_pool(settings, "worker", 6) as pool:
        store = PostgresStore(pool)
        await _measure(clock, store)

        async def keep_time() -> None:
            while not service.stopping.is_set():
                with trio.move_on_after(5):
                    await service.stopping.wait()
                await _measure(clock, store, once=True)

        pokes = Pokes(service, Asked(open_etcd(settings)).look, tls)
        pokes.add_to_service()
        member = Worker(
            worker_id,
            service,
            store,
            bus,
            results_bus,
            registry,
            pool=pool_name,
            now_ms=clock.now_ms,
            topic_partitions=settings.topic_partitions,
            slots=slots,
            threads=threads,
            poke=pokes.poke,
            secrets=provider_of(
                settings.secret_provider, prefix=settings.secret_prefix, folder=settings.secret_folder
            ),
            isolation=_isolation(settings, service),
        )
        service.add_loop("clock", keep_time)
        member.add_to_service()
        quieten_collector()
        await service.run()


def _isolation(settings: Settings, service: Service) -> Isolation | None:
    """Only a module with isolated handlers pays for a fork server."""
    if not registry.isolated:
        return None
    return Isolation(
        settings.handlers,
        service.health,
        user=settings.isolated_user,
        children=settings.isolated_children,
    )


async def _measure(clock: DatabaseClock, store: PostgresStore, *, once: bool = False) -> None:
    """Measure the database's clock; at the start, until it is in reach."""
    while True:
        try:
            return await clock.run_once(store)
        except UnavailableError as error:
            get_logger().warning("waiting", part="clock", reason=str(error))
            if once:
                return None
            await trio.sleep(0.5)
