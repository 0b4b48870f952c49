"""`shardctl results`: settles what the workers report."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import trio
import typer

from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.edges import doors_of, open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.logs import set_up_logs
from shardwheel.pokes import Asked, Pokes
from shardwheel.results.callbacks import Callbacks
from shardwheel.results.catching_up import CatchingUp
from shardwheel.results.lag import LagBreaker, LagWatch
from shardwheel.results.letters import LetterMirror
from shardwheel.results.processor import Processor
from shardwheel.results.retiring import Retiring
from shardwheel.service import Service, quieten_collector
from shardwheel.settings import Settings
from shardwheel.store.ends import EndStore
from shardwheel.store.postgres import PostgresStore
from shardwheel.tls import trust_of
from shardwheel.topics import result_topics
from shardwheel.webhooks import Webhooks

app = typer.Typer(add_completion=False)


@app.command()
def results(
    http_port: Annotated[
        int | None, typer.Option(help="Port of /metrics and /healthz (0: any free one).")
    ] = None,
    data: DataOption = None,
) -> None:
    """Run a result processor until SIGTERM. Several share the work.

    Example:

        shardctl results
    """
    settings = current_settings(data, http_port=http_port)
    require(settings, "postgres_dsn", "kafka_bootstrap")
    set_up_logs(settings.log_level, settings.log_format, role="results")
    trio.run(_run, settings)


async def _run(settings: Settings) -> None:
    tls = doors_of(settings)
    service = Service("results", host=settings.http_host, port=settings.http_port, tls=tls.server)
    await service.open()
    bus = open_results_kafka(settings)
    await bus.ensure_topics(result_topics(settings.topic_partitions))
    async with (
        open_pool(settings, "results", 2) as pool,
        open_pool(settings, "ends", 2) as ends,
        Webhooks(settings.callback_rules, trust=trust_of(settings.https_ca)) as webhooks,
    ):
        pokes = Pokes(service, Asked(open_etcd(settings)).look, tls)
        pokes.add_to_service()
        store, breaker = PostgresStore(pool), LagBreaker()
        LagWatch(service, bus, breaker).add_to_service()
        Processor(service, store, bus, pokes.poke, breaker).add_to_service()
        CatchingUp(service, store, breaker, pokes.poke).add_to_service()
        _add_ends(service, settings, EndStore(ends), webhooks)
        quieten_collector()
        await service.run()


def _add_ends(service: Service, settings: Settings, store: EndStore, webhooks: Webhooks) -> None:
    """What follows the settling, on connections of its own: whatever it waits for, no result does."""
    LetterMirror(service, store, open_kafka(settings), settings.topic_partitions).add_to_service()
    limit = timedelta(hours=settings.callback_limit_h)
    Callbacks(service, store, webhooks, secret=settings.callback_secret, limit=limit).add_to_service()
    Retiring(service, store, settings.keep).add_to_service()
