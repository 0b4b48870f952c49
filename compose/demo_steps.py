"""What the demo shows and checks, step by step. Each step looks at the running stack and reports findings.

To let the demo show more, write a function and add it to STEPS. A finding that is not well fails the demo.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
import psycopg
import trio

from shardwheel.compose.demo_dags import dags
from shardwheel.compose.demo_finding import Finding
from shardwheel.compose.demo_jobs import jobs, tick_latency
from shardwheel.compose.demo_takeover import takeover
from shardwheel.compose.dev import RunningStack
from shardwheel.etcd import Etcd
from shardwheel.kafka import Kafka
from shardwheel.store.migrate import schema_state
from shardwheel.topics import job_topics, result_topics

HEALTH_LIMIT_S = 60.0

Step = Callable[[RunningStack], Awaitable[list[Finding]]]


async def processes(stack: RunningStack) -> list[Finding]:
    """Every process runs. (A restart is no fault: a shard that a busy machine kept from renewing its lease
    starts over as somebody new.)"""
    return [
        Finding(row.id, row.state == "running", f"{row.state}, pid {row.pid} {row.address}")
        for row in stack.processes
    ]


async def postgres(stack: RunningStack) -> list[Finding]:
    """PostgreSQL answers, and its schema is that of this version."""
    return await trio.to_thread.run_sync(_postgres, stack.settings.postgres_dsn)


def _postgres(dsn: str) -> list[Finding]:
    with psycopg.connect(dsn, connect_timeout=10, autocommit=True) as connection:
        version = connection.info.parameter_status("server_version")
        state = schema_state(connection)
    return [
        Finding("PostgreSQL answers", True, f"version {version}"),
        Finding("schema", not (state.pending or state.changed), f"{len(state.applied)} migrations applied"),
    ]


async def etcd(stack: RunningStack) -> list[Finding]:
    """etcd answers a linearizable read."""
    async with Etcd(stack.settings.etcd_endpoints, cluster=stack.settings.cluster, time_limit_s=10) as client:
        version = await client.version()
        snapshot = await client.range("")
    return [Finding("etcd answers", True, f"version {version}, {len(snapshot.items)} keys")]


async def kafka(stack: RunningStack) -> list[Finding]:
    """Kafka answers, and every topic is there."""
    settings = stack.settings
    n = settings.topic_partitions
    names = [spec.name for spec in (*job_topics(n), *result_topics(n))]
    # The demo's results are in the same Kafka.
    offsets = await Kafka(settings.kafka_bootstrap, settings.kafka_settings, limit_s=10).end_offsets(names)
    found = {place.topic for place in offsets}
    detail = f"{len(found)} of {len(names)}, {len(offsets)} topic partitions"
    return [Finding("Kafka's topics", found == set(names), detail)]


async def services(stack: RunningStack) -> list[Finding]:
    """Every service says that all its parts are well."""
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        return [
            await _service(client, row.id, row.address)
            for row in stack.processes
            if row.role not in ("supervisor", "postgres", "etcd", "kafka")
        ]


async def _service(client: httpx.AsyncClient, name: str, address: str) -> Finding:
    """Its own word; on a busy machine a part may be unwell for a moment, so it is asked again for a while."""
    deadline = trio.current_time() + HEALTH_LIMIT_S
    while True:
        is_well, detail = await _health(client, address)
        if is_well or trio.current_time() > deadline:
            return Finding(f"{name} is healthy", is_well, detail)
        await trio.sleep(0.2)


async def _health(client: httpx.AsyncClient, address: str) -> tuple[bool, str]:
    try:
        answer = await client.get(f"http://{address}/healthz")
    except httpx.HTTPError as error:
        return False, str(error)
    parts = answer.json()["parts"].items()
    return answer.status_code == 200, ", ".join(f"{part} {state}" for part, state in parts)


STEPS: tuple[Step, ...] = (processes, postgres, etcd, kafka, services, jobs, dags, tick_latency, takeover)
