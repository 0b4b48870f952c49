"""`shardctl bench enqueue`: how quickly the API stores jobs and tells about them, and when a shard has them.

The whole embedded stack with one shard: real HTTP, durable commits, audit rows, the owner poked. A job counts
as being in the wheel when its owner counts one entry more; it is looked for again and again, a ms apart, so
what the looking takes is in the figure. Each phase begins with some that are not counted: they warm caches
and plans, and the API learns who owns what.
Jobs a second by batch: whichever is more, of batches of 100 or of the largest that the API takes; the jobs
differ in their params, and the report says which batches it were.
A key is what our own clients give each job, so that they may send it again: `keyed` is the same with one.
Reading a job: each of 16 connections asks for one again and again, as those do who wait for it; the API
remembers such an answer for half a second. `status_of_many` asks for another job each time, so nothing is
remembered, and `execution` for executions, of which no answer ever is.
"With pokes lost" is a job that was stored without the API: nobody tells the shard, so it reads it by itself.
The reference is a bare insert, one row a commit, on one connection in the same run.
"""

from __future__ import annotations

import itertools
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import psycopg
import trio

from shardwheel.bench.http_load import Measured, Target, load
from shardwheel.bench.measure import Latencies, machine
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.compose.dev import RunningStack, open_stack
from shardwheel.compose.services import Wish
from shardwheel.partition import PARTITIONS
from shardwheel.posting import parse_posting
from shardwheel.settings import Settings
from shardwheel.store.jobs import create_jobs
from shardwheel.tokens import tenant_token

CONNECTIONS: Final = (1, 16, 64)
BATCH: Final = 100
LARGE_BATCH: Final = 1_000
BATCH_CONNECTIONS: Final = 4
STATUS_CONNECTIONS: Final = 16
TENANT: Final = "bench"
KEYED_CONNECTIONS: Final = 16
MANY: Final = 20_000
PHASES: Final = 15
IN_WHEEL: Final = 500
WITHOUT_POKE: Final = 10
LIMIT_S: Final = 60.0
# Looks without a rest would keep the shard from what they wait for.
LOOK_S: Final = 0.001
JOB: Final = {"task": "bench.noop", "params": {"n": 1}, "cron": "0 9 1 1 *", "time_zone": "Europe/Berlin"}
_BARE_TABLE: Final = b"CREATE TABLE IF NOT EXISTS bench_bare (id bigint PRIMARY KEY, body jsonb)"
_SOME_JOBS: Final = b"SELECT job_id::text FROM shardwheel.jobs WHERE tenant_id = %s LIMIT %s"
_BARE_INSERT: Final = b"INSERT INTO bench_bare VALUES (%s, %s)"

Report = dict[str, Any]
Say = Callable[[str], None]


def bench_enqueue(seconds: float, say: Say) -> Report:
    with tempfile.TemporaryDirectory(prefix="shardwheel-bench-", ignore_cleanup_errors=True) as folder:
        return trio.run(_bench, Path(folder), seconds, say)


async def _bench(folder: Path, seconds: float, say: Say) -> Report:
    async with open_stack(Wish(folder=folder, settings=Settings(), workers=0), say) as stack:
        return await trio.to_thread.run_sync(measure_enqueue, stack, seconds, say)


def measure_enqueue(stack: RunningStack, seconds: float, say: Say, in_wheel: int = IN_WHEEL) -> Report:
    target, phase_s = _target(stack), seconds / PHASES
    say("waiting for jobs to be in the wheel")
    report = _in_wheel(stack, target, in_wheel, phase_s / 2)
    load(target, _creations(target), 4, phase_s / 2)
    report["connections"] = {}
    for connections in CONNECTIONS:
        say(f"storing jobs, {connections} connections")
        measured = load(target, _creations(target), connections, phase_s)
        report["connections"][str(connections)] = measured._asdict()
    say("storing jobs with a key each")
    report["keyed"] = load(target, _keyed(target), KEYED_CONNECTIONS, phase_s)._asdict()
    say(f"storing batches of {BATCH}")
    report |= _batches(target, phase_s)
    say("reading jobs")
    report |= _status(target, phase_s)
    report["status_of_many"] = _status_of_many(stack, target, phase_s)
    say("reading executions")
    report["execution"] = _executions(target, phase_s)
    say("inserting bare rows")
    report["bare_insert_per_s"] = _bare(stack.settings.postgres_dsn, phase_s)
    report["ratio"] = round(report["connections"]["16"]["per_s"] / report["bare_insert_per_s"], 2)
    return report | {"machine": machine()}


def _target(stack: RunningStack) -> Target:
    host, _, port = _address(stack, "api").rpartition(":")
    settings = stack.settings
    token = tenant_token(
        settings.secret,
        tenant=TENANT,
        role="admin",
        name="bench",
        expires_at_s=int(time.time()) + 86_400,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
    )
    return Target(host, int(port), token)


def _address(stack: RunningStack, role: str) -> str:
    return next(row.address for row in stack.processes if row.role == role)


def _creations(target: Target) -> Callable[[int], Iterator[bytes]]:
    request = target.request("POST", "/jobs", msgspec.json.encode(JOB))
    return lambda _: itertools.repeat(request)


def _keyed(target: Target, size: int = 0) -> Callable[[int], Iterator[bytes]]:
    """The same with a key for each job, singly or in batches of this size."""
    whose = uuid.uuid4().hex

    def requests(number: int) -> Iterator[bytes]:
        keyed = (JOB | {"idempotency_key": f"{whose} {number} {n}"} for n in itertools.count())
        while True:
            body: Any = list(itertools.islice(keyed, size)) if size else next(keyed)
            yield target.request("POST", "/jobs:batch" if size else "/jobs", msgspec.json.encode(body))

    return requests


def _batches(target: Target, phase_s: float) -> Report:
    alone = load(target, _batch_of(target, BATCH), 1, phase_s)
    rates = {
        size: load(target, _batch_of(target, size), BATCH_CONNECTIONS, phase_s).per_s * size
        for size in (BATCH, LARGE_BATCH)
    }
    keyed = load(target, _keyed(target, LARGE_BATCH), BATCH_CONNECTIONS, phase_s)
    best = max(rates, key=rates.__getitem__)
    return {
        "batch100_p50_ms": alone.p50_ms,
        "batch100_p99_ms": alone.p99_ms,
        "batch_jobs_per_s": round(rates[best]),
        "batch_size": best,
        "batch_connections": BATCH_CONNECTIONS,
        "keyed_batch_jobs_per_s": round(keyed.per_s * LARGE_BATCH),
    }


def _batch_of(target: Target, size: int) -> Callable[[int], Iterator[bytes]]:
    jobs = [JOB | {"params": {"n": number}} for number in range(size)]
    request = target.request("POST", "/jobs:batch", msgspec.json.encode(jobs))
    return lambda _: itertools.repeat(request)


def _status(target: Target, phase_s: float) -> Report:
    """Each connection asks for a job of its own, again and again, as those who wait for one do."""
    ids = [_create(target)["id"] for _ in range(STATUS_CONNECTIONS)]
    requests = [target.request("GET", f"/jobs/{job_id}") for job_id in ids]
    alone: Measured = load(target, lambda number: itertools.repeat(requests[number]), 1, phase_s)
    many = load(target, lambda number: itertools.repeat(requests[number]), STATUS_CONNECTIONS, phase_s)
    return {"status_p50_ms": alone.p50_ms, "status_p99_ms": alone.p99_ms, "status_per_s": many.per_s}


def _status_of_many(stack: RunningStack, target: Target, phase_s: float) -> Report:
    """Each connection has jobs of its own to ask for, one after the other."""
    with psycopg.connect(stack.settings.postgres_dsn) as conn:
        stored = conn.execute(_SOME_JOBS, [TENANT, MANY]).fetchall()
    requests = [target.request("GET", f"/jobs/{job_id}") for (job_id,) in stored]

    def own(number: int) -> Iterator[bytes]:
        return itertools.cycle(requests[number::STATUS_CONNECTIONS])

    return load(target, own, STATUS_CONNECTIONS, phase_s)._asdict()


def _executions(target: Target, phase_s: float) -> Report:
    """Of jobs that were triggered: each connection has one to ask for."""
    jobs = [_create(target)["id"] for _ in range(STATUS_CONNECTIONS)]
    ids = [_post(target, f"/jobs/{job_id}:trigger", {})["id"] for job_id in jobs]
    requests = [target.request("GET", f"/executions/{execution_id}") for execution_id in ids]

    def measured(connections: int) -> Report:
        return load(target, lambda n: itertools.repeat(requests[n]), connections, phase_s)._asdict()

    return {str(connections): measured(connections) for connections in (1, STATUS_CONNECTIONS)}


def _create(target: Target) -> dict[str, Any]:
    return _post(target, "/jobs", JOB)


def _post(target: Target, path: str, body: Any) -> dict[str, Any]:
    url = f"http://{target.host}:{target.port}/api/v1{path}"
    answer = httpx.post(url, json=body, headers={"authorization": f"Bearer {target.token}"}, trust_env=False)
    made: dict[str, Any] = answer.raise_for_status().json()
    return made


def _in_wheel(stack: RunningStack, target: Target, count: int, warm_up_s: float) -> Report:
    poked, unpoked = Latencies(), Latencies()
    headers = {"authorization": f"Bearer {target.token}"}
    api = httpx.Client(
        base_url=f"http://{target.host}:{target.port}/api/v1", headers=headers, trust_env=False
    )
    with api, Wheel(_address(stack, "shard")) as wheel, psycopg.connect(stack.settings.postgres_dsn) as conn:

        def create() -> float:
            api.post("/jobs", json=JOB).raise_for_status()
            return wheel.wait_for_one_more()

        warm_at_s = time.perf_counter() + warm_up_s
        while time.perf_counter() < warm_at_s:
            create()
        for _ in range(count):
            poked.record(create())
        for _ in range(WITHOUT_POKE):
            create_jobs(conn, TENANT, [parse_posting(JOB)])
            conn.commit()
            unpoked.record(wheel.wait_for_one_more())
    return {
        "in_wheel_p99_ms": round(poked.percentile_ms(99), 1),
        "in_wheel_without_poke_max_ms": round(unpoked.max_ms, 1),
    }


class Wheel:
    """The count of what a shard fires that has all partitions, while nobody else stores jobs."""

    def __init__(self, address: str) -> None:
        # A client library would take longer for a look than the shard does.
        self._door = HTTPConnection(address)
        self._known = 0

    def __enter__(self) -> Wheel:
        """Once the shard owns every partition."""
        give_up_at_s = time.perf_counter() + LIMIT_S
        while (owned := self._owned()) < PARTITIONS:
            if time.perf_counter() > give_up_at_s:
                raise RuntimeError(f"the shard owns {owned} partitions after {LIMIT_S:g} s")
            time.sleep(LOOK_S)
        self._known = self._entries()
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()

    def wait_for_one_more(self) -> float:
        """How many ms from now until it holds one more than before."""
        begun_s = time.perf_counter()
        self._known += 1
        while self._entries() < self._known:
            if time.perf_counter() - begun_s > LIMIT_S:
                raise RuntimeError(f"a job was not in the wheel after {LIMIT_S:g} s")
            time.sleep(LOOK_S)
        return (time.perf_counter() - begun_s) * 1000

    def _owned(self) -> int:
        return sum(one["role"] == "owner" for one in self._ask("/status")["partitions"].values())

    def _entries(self) -> int:
        entries: int = self._ask("/entries")["entries"]
        return entries

    def _ask(self, path: str) -> dict[str, Any]:
        self._door.request("GET", path)
        with self._door.getresponse() as answer:
            told: dict[str, Any] = msgspec.json.decode(answer.read())
        return told


def _bare(dsn: str, phase_s: float) -> float:
    body = msgspec.json.encode(JOB).decode()
    with psycopg.connect(dsn) as conn:
        conn.execute(_BARE_TABLE)
        conn.commit()
        begun_s = time.perf_counter()
        for number in itertools.count(1):
            conn.execute(_BARE_INSERT, [number, body])
            conn.commit()
            took_s = time.perf_counter() - begun_s
            if took_s >= phase_s:
                return round(number / took_s, 1)
    raise AssertionError("counting has no end")


def print_result(result: Report) -> None:
    rows: list[tuple[Any, ...]] = [
        (f"store a job, {name} connections", one["p50_ms"], one["p99_ms"], one["per_s"])
        for name, one in result["connections"].items()
    ]
    rows += _named(result, "keyed", "the same with a key each, 16 connections")
    rows.append(("store a batch of 100", result["batch100_p50_ms"], result["batch100_p99_ms"], ""))
    rows.append((f"jobs by batches of {result['batch_size']:,}", "", "", result["batch_jobs_per_s"]))
    if "keyed_batch_jobs_per_s" in result:
        rows.append(("the same with a key each", "", "", result["keyed_batch_jobs_per_s"]))
    rows.append(("read a job", result["status_p50_ms"], result["status_p99_ms"], result["status_per_s"]))
    rows += _named(result, "status_of_many", "read one of many jobs, 16 connections")
    for name, one in result.get("execution", {}).items():
        rows += _named({"execution": one}, "execution", f"read an execution, {name} connections")
    print_table("Enqueue", ["", "p50 ms", "p99 ms", "a second"], rows)
    print_table(
        "Beside",
        ["in the wheel, p99 ms", "pokes lost, max ms", "bare inserts/s", "ratio"],
        [
            (
                result["in_wheel_p99_ms"],
                result["in_wheel_without_poke_max_ms"],
                result["bare_insert_per_s"],
                result["ratio"],
            )
        ],
    )
    print_machine(result["machine"])


def _named(result: Report, name: str, what: str) -> list[tuple[Any, ...]]:
    """A row, unless the run is older than what it is about."""
    one = result.get(name)
    return [] if one is None else [(what, one["p50_ms"], one["p99_ms"], one["per_s"])]


def picture(result: Report, path: Path) -> None:
    stored = {name: one["per_s"] for name, one in result["connections"].items()}
    slow = {name: one["p99_ms"] for name, one in result["connections"].items()}
    save_picture(
        path,
        "Storing jobs through the API",
        [
            Bars("Jobs stored, by connections", "a second", stored | {"bare": result["bare_insert_per_s"]}),
            Bars("p99 of storing one, by connections", "ms", slow),
        ],
    )
