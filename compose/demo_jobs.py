"""The demo's jobs: stored, fired, claimed, run and settled while one watches. Each promise is a finding."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import psycopg
import trio

from shardwheel.client import Client
from shardwheel.compose.demo_finding import Finding
from shardwheel.compose.dev import RunningStack

LIMIT_S = 120.0
TICKS = 5


class Promise(NamedTuple):
    """A job of the demo, and when what it promises has happened."""

    what: str
    task: str
    fields: dict[str, Any]
    kept: Callable[[list[dict[str, Any]]], bool]


def _all(state: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda rows: [row["state"] for row in rows] == [state]


PROMISES = (
    Promise("a one-shot runs", "demo.hello", {"params": {"name": "you"}}, _all("succeeded")),
    Promise(
        f"a job of every 0.5 s runs {TICKS} times",
        "demo.hello",
        {"every": "500ms"},
        lambda rows: sum(row["state"] == "succeeded" for row in rows) >= TICKS,
    ),
    Promise("a cron job waits for its time", "demo.hello", {"cron": "0 0 1 1 *"}, lambda rows: rows == []),
    Promise(
        "a failure is tried again",
        "demo.flaky",
        {},
        lambda rows: [(row["state"], row["attempt"]) for row in rows] == [("succeeded", 2)],
    ),
    Promise("the hopeless is a dead letter", "demo.hopeless", {}, _all("dead")),
)


async def jobs(stack: RunningStack) -> list[Finding]:
    """Create the demo's jobs and watch each keep its promise."""
    return await trio.to_thread.run_sync(_jobs, stack.settings.postgres_dsn)


def _jobs(dsn: str) -> list[Finding]:
    with psycopg.connect(dsn, autocommit=True, row_factory=psycopg.rows.dict_row) as conn:
        client = Client()
        ids = [client.create_job(p.task, conn=conn, **p.fields).id for p in PROMISES]
        findings = [_watch(conn, promise, job_id) for promise, job_id in zip(PROMISES, ids, strict=True)]
        letters = conn.execute("SELECT task, message FROM shardwheel.dead_letters").fetchall()
    detail = ", ".join(f"{letter['task']}: {letter['message']}" for letter in letters) or "none"
    return [*findings, Finding("dead letters", len(letters) == 1, detail)]


def _watch(conn: psycopg.Connection[dict[str, Any]], promise: Promise, job_id: str) -> Finding:
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        rows = conn.execute(
            """SELECT state, attempt, output, extract(epoch FROM started_at - due_at) * 1000 AS late_ms
                 FROM shardwheel.executions WHERE job_id = %s ORDER BY execution_id""",
            [job_id],
        ).fetchall()
        kept = promise.kept(rows)
        if kept or time.monotonic() > deadline_s:
            return Finding(promise.what, kept, _detail(rows))
        time.sleep(0.1)


def _detail(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no execution yet"
    last = rows[-1]
    late = "" if last["late_ms"] is None else f", started {float(last['late_ms']):.0f} ms after it was due"
    return f"{len(rows)} × {last['state']}{late}" + (f": {last['output']}" if last["output"] else "")


async def tick_latency(stack: RunningStack) -> list[Finding]:
    """How long the shards took from a fire time to the broker's acknowledgement."""
    count, total_s = 0.0, 0.0
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        for row in stack.processes:
            if row.role == "shard":
                text = (await client.get(f"http://{row.address}/metrics")).text
                count += _metric(text, "shardwheel_tick_latency_seconds_count")
                total_s += _metric(text, "shardwheel_tick_latency_seconds_sum")
    mean_ms = total_s / count * 1000 if count else 0.0
    return [
        Finding("tick latency", count > 0, f"{mean_ms:.1f} ms on average over {count:.0f} ticks that fired")
    ]


def _metric(text: str, name: str) -> float:
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.split(" ")[0] == name)
