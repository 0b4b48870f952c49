"""`shardctl shard`: a scheduler shard as a process of its own."""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import Annotated

import trio
import typer

from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.edges import open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.coordinator.lead import Lead
from shardwheel.http import Answer
from shardwheel.logs import set_up_logs
from shardwheel.service import Service
from shardwheel.settings import Settings
from shardwheel.shard.shard import Shard
from shardwheel.store.postgres import PostgresStore
from shardwheel.topics import job_topics, result_topics

app = typer.Typer(help="Run a scheduler shard.", invoke_without_command=True)


@app.callback()
def shard(
    http_port: Annotated[
        int | None, typer.Option(help="Port of /metrics and /healthz (0: any free one).")
    ] = None,
    data: DataOption = None,
) -> None:
    """Run a scheduler shard until SIGTERM, which hands its partitions over.

    Example:

        shardctl shard --data ./dev
    """
    settings = current_settings(data, http_port=http_port)
    require(settings, "postgres_dsn", "etcd_endpoints", "kafka_bootstrap")
    # New with every start of the process, never reused: a reused name lost fires in the model.
    shard_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    set_up_logs(settings.log_level, settings.log_format, role="shard", shard=shard_id)
    trio.run(_run, settings, shard_id)


async def _run(settings: Settings, shard_id: str) -> None:
    service = Service("shard", host=settings.http_host, port=settings.http_port)
    await service.open()
    bus, results_bus = open_kafka(settings), open_results_kafka(settings)
    async with open_etcd(settings) as leases, open_pool(settings, "shard", 6) as pool:
        store = PostgresStore(pool)
        await bus.ensure_topics(job_topics(settings.topic_partitions))
        await results_bus.ensure_topics(result_topics(settings.topic_partitions))
        member = Shard(
            shard_id,
            service,
            store,
            bus,
            results_bus,
            leases,
            monotonic=time.monotonic,
            topic_partitions=settings.topic_partitions,
            lease_ttl_s=settings.lease_ttl_s,
            isolation_limit_s=settings.isolation_limit_s,
        )

        async def poke(_body: bytes) -> Answer:
            member.poke()
            return Answer(202, b"{}")

        service.add_route("POST", "/poke", poke)
        await member.join()
        member.add_to_service()
        Lead(service, store, bus, leases, member).add_to_service()
        await service.run()
