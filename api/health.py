"""Is it there, can it serve, how is it doing: for probes and Prometheus, without a token."""

from __future__ import annotations

from typing import Any

from shardwheel.api.route import Ask, Reply, Route
from shardwheel.errors import UnavailableError
from shardwheel.metrics import CONTENT_TYPE, exposition
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.link import Connection

EXAMPLE = {"status": "ok", "parts": {"etcd": "ok"}}
UNWELL = {"status": "unwell", "parts": {"etcd": "out of reach"}}


async def healthz(ask: Ask) -> Reply:
    """The same answer as every service's own door gives."""
    answer = await ask.desk.health.route(b"")
    return Reply(answer.body, answer.status, answer.content_type)


async def readyz(ask: Ask) -> Reply:
    """Whether to send requests here: PostgreSQL answers, and nobody asked this process to stop."""
    if ask.desk.is_stopping():
        raise UnavailableError("this process is stopping")
    await ask.desk.pool.run("", _read)
    return Reply({"status": "ready"})


async def metrics(ask: Ask) -> Reply:
    return Reply(exposition(), 200, CONTENT_TYPE)


def _read(conn: Connection, tenant_id: str) -> int:
    return read_now_ms(conn)


ROUTES = (
    Route(
        "GET",
        "/healthz",
        healthz,
        "How this process is doing",
        "200 while every part of it says that it is well, else 503 with the reasons.",
        dict[str, Any],
        EXAMPLE,
        also=(503, UNWELL),
    ),
    Route(
        "GET",
        "/readyz",
        readyz,
        "Whether it can serve",
        "200 when PostgreSQL answers and the process is not stopping.",
        dict[str, str],
        {"status": "ready"},
    ),
    Route(
        "GET",
        "/metrics",
        metrics,
        "Metrics for Prometheus",
        "In its text format.",
        str,
        "# HELP shardwheel_api_request_seconds Time to answer a request.\n",
        reply_type="text/plain",
    ),
)
