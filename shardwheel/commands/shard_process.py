"""A scheduler shard as a process of its own: which rooms and edges it is made of."""

from __future__ import annotations

import os
import secrets
import socket
import time
from importlib.metadata import version

import msgspec
import trio

from shardwheel.commands.edges import doors_of, open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.coordinator.lead import Lead
from shardwheel.coordinator.members import Members
from shardwheel.doors import TcpDoors
from shardwheel.http import Answer
from shardwheel.logs import set_up_logs
from shardwheel.records import Member
from shardwheel.service import Service, quieten_collector
from shardwheel.settings import Settings
from shardwheel.shard.census import Census
from shardwheel.shard.shard import Shard
from shardwheel.store import feed
from shardwheel.store.postgres import PostgresStore
from shardwheel.topics import job_topics, result_topics


def serve(settings: Settings) -> None:
    """Run until SIGTERM."""
    # New with every start of the process, never reused: a reused name lost fires in the model.
    shard_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    set_up_logs(settings.log_level, settings.log_format, role="shard", shard=shard_id)
    trio.run(_run, settings, shard_id)


async def _run(settings: Settings, shard_id: str) -> None:
    tls = doors_of(settings)
    service = Service(
        "shard",
        host=settings.http_host,
        port=settings.http_port,
        tls=tls.server,
        stop_limit_s=settings.leave_limit_s + 10,
    )
    await service.open()
    bus, results_bus = open_kafka(settings), open_results_kafka(settings)
    async with (
        open_etcd(settings) as leases,
        open_pool(settings, "shard", 6) as pool,
        open_pool(settings, "feed", 2, feed.PLANNER) as feed_pool,
    ):
        store = PostgresStore(pool, feed_pool)
        await bus.ensure_topics(job_topics(settings.topic_partitions))
        await results_bus.ensure_topics(result_topics(settings.topic_partitions))
        members = Members(service, leases)
        member = Shard(
            Member(
                shard_id,
                settings.zone,
                address=service.address,
                version=version("shardwheel"),
                started_at_ms=int(time.time() * 1000),
            ),
            service,
            store,
            bus,
            results_bus,
            leases,
            members,
            TcpDoors(tls.client),
            monotonic=time.monotonic,
            topic_partitions=settings.topic_partitions,
            lease_ttl_s=settings.lease_ttl_s,
            isolation_limit_s=settings.isolation_limit_s,
            leave_limit_s=settings.leave_limit_s,
        )
        lead = Lead(
            service,
            store,
            bus,
            leases,
            member,
            members,
            now_ms=member.clock.now_ms,
            mirrored=settings.standbys > 0,
        )

        async def poke(_body: bytes) -> Answer:
            member.poke()
            return Answer(202, b"{}")

        async def status(_body: bytes) -> Answer:
            return Answer(200, msgspec.json.encode(member.status() | {"leader": lead.leads}))

        async def entries(_body: bytes) -> Answer:
            return Answer(200, msgspec.json.encode({"entries": member.entries()}))

        async def alive(_body: bytes) -> Answer:
            return Answer(200, msgspec.json.encode({"shard_id": shard_id}))

        service.add_route("POST", "/poke", poke)
        service.add_route("GET", "/status", status)
        service.add_route("GET", "/entries", entries)
        service.add_route("GET", "/alive", alive)
        service.add_route("POST", "/census", Census(shard_id, member.holdings).route)
        await member.join()
        members.add_to_service()
        member.add_to_service()
        lead.add_to_service()
        quieten_collector()
        await service.run()
