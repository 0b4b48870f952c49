"""The demo's DAG: a diamond, a fan-out with its join, a retry, a task that dies, and the redrive that brings
its run to success. Each promise is a finding.

    start ─┬─ left ───────────────┬─ join ── fragile ─┬─ report
           ├─ right (fails once) ─┘   (dies once)     │
           └─ list ── each (once per item) ── sum ────┘
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import psycopg
import trio

from shardwheel.compose.demo_finding import Finding
from shardwheel.compose.dev import RunningStack
from shardwheel.dag import parse_dag
from shardwheel.ids import text_of
from shardwheel.store.audit import Actor
from shardwheel.store.dag_reading import read_run
from shardwheel.store.dags import create_dag, trigger_dag
from shardwheel.store.letter_requests import redrive_letter

TENANT = "default"
LIMIT_S = 60.0
ITEMS = ["a", "b", "c"]


def _task(key: str, task: str, *parents: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "task": task, "depends_on": list(parents), **fields}


DAG = {
    "name": "demo",
    "policy": "continue",
    "tasks": [
        _task("start", "demo.hello"),
        _task("left", "demo.hello", "start"),
        _task("right", "demo.flaky", "start"),
        _task("join", "demo.hello", "left", "right"),
        _task("list", "demo.list", "start", params={"items": ITEMS}),
        _task("each", "demo.shout", "list", fan_out=True),
        _task("sum", "demo.collect", "each"),
        _task("fragile", "demo.fragile", "join"),
        _task("report", "demo.collect", "fragile", "sum"),
    ],
}


async def dags(stack: RunningStack) -> list[Finding]:
    """Run the DAG until a task dies, and redrive that one: the run goes on, and succeeds."""
    return await trio.to_thread.run_sync(_dags, stack.settings.postgres_dsn)


def _dags(dsn: str) -> list[Finding]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        with conn.transaction():
            dag_id = create_dag(conn, TENANT, parse_dag(DAG))
            run_id = trigger_dag(conn, TENANT, dag_id, uuid.uuid4().bytes)
        before = _watch(conn, run_id, "partial")
        letters = _letters(conn, run_id)
        for letter_id in letters:
            with conn.transaction():
                redrive_letter(conn, TENANT, letter_id, Actor("demo"))
        after = _watch(conn, run_id, "succeeded")
    return [*_first_half(before), *_second_half(after, len(letters))]


def _watch(conn: psycopg.Connection[Any], run_id: bytes, until: str) -> dict[str, Any]:
    """The run with its tasks by key, once it is in this state, or there is no more time."""
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        found = conn.execute("SELECT state FROM shardwheel.dag_runs WHERE dag_run_id = %s", [text_of(run_id)])
        if found.fetchall() == [(until,)] or time.monotonic() > deadline_s:
            run = read_run(conn, TENANT, run_id)
            return run | {"tasks": {task["key"]: task for task in run["tasks"]}}
        time.sleep(0.05)


def _letters(conn: psycopg.Connection[Any], run_id: bytes) -> list[bytes]:
    rows = conn.execute(
        "SELECT uuid_send(dead_letter_id) FROM shardwheel.dead_letters"
        " WHERE dag_run_id = %s AND state = 'open'",
        [text_of(run_id)],
    )
    return [row[0] for row in rows]


def _first_half(run: dict[str, Any]) -> list[Finding]:
    tasks = run["tasks"]
    ends = [tasks[key]["ended_at"] or "" for key in ("left", "right")]
    begun_at = tasks["join"]["started_at"] or ""
    joined = tasks["join"]["state"] == "succeeded" and max(ends) <= begun_at
    right, each, total = tasks["right"], tasks["each"], tasks["sum"]
    states = f"run {run['state']}, fragile {tasks['fragile']['state']}, report {tasks['report']['state']}"
    stopped = states == "run partial, fragile dead, report upstream_failed"
    collected = total["output"] == {"each": [item.upper() for item in ITEMS]}
    return [
        Finding("a diamond joins", joined, f"both parents ended by {max(ends)}, it began at {begun_at}"),
        Finding(
            "a DAG's task is tried again",
            (right["state"], right["attempt"]) == ("succeeded", 2),
            f"{right['state']} at attempt {right['attempt']}",
        ),
        Finding("a fan-out is joined", collected, f"{len(ITEMS)} items, {each['state']}: {total['output']}"),
        Finding("a task that dies stops what follows", stopped, states),
    ]


def _second_half(run: dict[str, Any], letters: int) -> list[Finding]:
    fragile, report = run["tasks"]["fragile"], run["tasks"]["report"]
    is_well = letters == 1 and run["state"] == report["state"] == "succeeded" and fragile["attempt"] == 2
    detail = f"run {run['state']}, fragile {fragile['state']} at attempt {fragile['attempt']}"
    return [Finding("its redrive brings the run to success", is_well, f"{detail}: {report['output']}")]
