"""We, through the whole stack: jobs come in by the API, then shard, Kafka, worker, results, a process each.

The handler notes its start like every peer's; the end is recorded when the result is settled.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import msgspec
import psycopg
import trio

from shardwheel.bench.embedded import Servers, embedded_etcd, embedded_kafka
from shardwheel.bench.loop import Loop, loop_environment
from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer, Place
from shardwheel.bench.peers.work import Once, Plan
from shardwheel.bench.shards import is_settled, until
from shardwheel.compose.ports import LOOPBACK, choose
from shardwheel.handler import handler
from shardwheel.settings import Settings
from shardwheel.store.migrate import migrate
from shardwheel.tokens import tenant_token

TASK: Final = "bench.peer"
# What a job's start needs; the others begin when these are up, since all compete for the same cores.
_FIRST: Final = ("shard", "worker")
_READY_S: Final = 60.0
_UNFINISHED: Final = b"""
SELECT count(*) FROM shardwheel.executions WHERE state IN ('queued', 'held', 'running', 'retry_wait')"""


@handler(TASK)
async def run(ctx: Any, params: dict[str, Any]) -> None:
    started(params["n"])


class _Whereabouts(msgspec.Struct):
    """What driver and host have to agree upon."""

    etcd: str
    kafka: str
    http_port: int
    secret: str


class Ours(Peer):
    package = "shardwheel"
    settings = "one shard, one worker, one result processor, one API process; jobs:batch of 1,000"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._servers = ExitStack()
        self._api: httpx.Client | None = None
        self._loop: Loop | None = None

    def create(self) -> None:
        with psycopg.connect(self.place.dsn) as connection:
            migrate(connection)
        etcd = self._servers.enter_context(embedded_etcd(_silent))
        kafka = self._servers.enter_context(embedded_kafka(_silent))
        where = _Whereabouts(etcd, kafka, choose(), secrets.token_hex(32))
        (self.place.folder / "whereabouts").write_bytes(msgspec.json.encode(where))

    def serve(self, plans: Sequence[Plan]) -> None:
        where = self._where()
        servers = Servers(self.place.dsn, where.etcd, where.kafka)
        environment = loop_environment(servers) | {
            "SHARDWHEEL_HANDLERS": __name__,
            "SHARDWHEEL_SECRET": where.secret,
        }
        self._loop = Loop(self.place.folder, self.place.dsn, environment)
        for role in _FIRST:
            self._loop.start(role)
        trio.run(until, servers, lambda view: is_settled(view, 1), "owning all partitions")
        self._loop.start("results")
        self._loop.start("api", "--http-port", str(where.http_port))
        _until_ready(f"http://{LOOPBACK}:{where.http_port}/api/v1/readyz")

    def _where(self) -> _Whereabouts:
        return msgspec.json.decode((self.place.folder / "whereabouts").read_bytes(), type=_Whereabouts)

    def pids(self) -> list[int]:
        assert self._loop is not None
        return [self._loop.pid("shard")]

    def close(self) -> None:
        if self._loop is not None:
            self._loop.stop()
        if self._api is not None:
            self._api.close()
        self._servers.close()

    def add_once(self, jobs: Sequence[Once]) -> None:
        self._post([{"params": {"n": job.number}, "run_at": _iso(job.due_s)} for job in jobs])

    def enqueue(self, numbers: Sequence[int]) -> None:
        self._post([{"params": {"n": number}} for number in numbers])

    def add_recurring(self, plans: Sequence[Plan]) -> None:
        self._post([{"params": {"n": plan.number}, "cron": plan.cron_seconds_first} for plan in plans])

    def _post(self, jobs: list[dict[str, Any]]) -> None:
        body = msgspec.json.encode([{"task": TASK, **job} for job in jobs])
        answer = self._door().post("/jobs:batch", content=body)
        if answer.is_error:
            raise RuntimeError(f"the API answered {answer.status_code}: {answer.text[:300]}")

    def _door(self) -> httpx.Client:
        if self._api is None:
            where = self._where()
            headers = {
                "authorization": f"Bearer {_token(where.secret)}",
                "content-type": "application/json",
            }
            base = f"http://{LOOPBACK}:{where.http_port}/api/v1"
            self._api = httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=60)
        return self._api

    def unfinished(self) -> int:
        with psycopg.connect(self.place.dsn) as connection:
            ((count,),) = connection.execute(_UNFINISHED)
            return int(count)


def _token(secret: str) -> str:
    settings = Settings()
    return tenant_token(
        secret,
        tenant="bench",
        role="admin",
        name="bench",
        expires_at_s=int(time.time()) + 86_400,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
    )


def _until_ready(url: str) -> None:
    deadline_s = time.monotonic() + _READY_S
    while time.monotonic() < deadline_s:
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"the API is not ready after {_READY_S:g} s")


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _silent(_line: str) -> None:
    pass
