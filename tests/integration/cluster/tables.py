"""What a real cluster leaves behind, as the simulation's checker looks at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg

from shardwheel.memory.rows import Execution, SkipRange
from shardwheel.partition import PARTITIONS
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.ownership import read_partitions
from tests.simulation.checker import Watcher, check
from tests.simulation.tables import Tables

Connection = psycopg.Connection[Any]

_EXECUTIONS = """
SELECT uuid_send(execution_id), tenant_id, partition, uuid_send(job_id), kind, origin, state,
       shardwheel.ms(scheduled_at), shardwheel.ms(due_at), reason, attempt
  FROM shardwheel.executions
"""
_SKIP_RANGES = """
SELECT uuid_send(job_id), shardwheel.ms(first_at), shardwheel.ms(last_at), count, reason, schedule_no
  FROM shardwheel.skip_ranges
"""
_CHANGES = """
SELECT uuid_send(execution_id), uuid_send(job_id), origin, job_state,
       old_state, old_attempt, uuid_send(old_token), new_state, new_attempt, uuid_send(new_token)
  FROM planted.changes ORDER BY number
"""


def read_tables(conn: Connection) -> Tables:
    """All of them, of the snapshot that the caller's transaction has."""
    decoder = msgspec.msgpack.Decoder(JobRow)
    return Tables(
        read_now_ms(conn),
        dict(conn.execute("SELECT uuid_send(job_id), state FROM shardwheel.jobs")),
        [decoder.decode(job) for (job,) in conn.execute("SELECT job FROM planted.notes")],
        {execution for (execution,) in conn.execute("SELECT uuid_send(execution_id) FROM planted.cancels")},
        [Execution(*row) for row in conn.execute(_EXECUTIONS)],
        [SkipRange._make(row) for row in conn.execute(_SKIP_RANGES)],
        conn.execute("SELECT * FROM shardwheel.work_rows WHERE state = 'open'").fetchall(),
        read_partitions(conn, range(PARTITIONS)),
    )


class Evidence(NamedTuple):
    """What a cluster has left behind: its tables, every change of an execution in order, and what handlers
    wrote down, read before and after the rest: whatever began had been claimed by then, whatever was settled
    as succeeded had said so before."""

    tables: Tables
    changes: list[tuple[Any, ...]]
    runs_before: list[str]
    runs_after: list[str]


def read_evidence(conn: Connection, runs: Path) -> Evidence:
    """Of one snapshot: people and processes go on meanwhile."""
    runs_before = _lines(runs)
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        tables, changes = read_tables(conn), conn.execute(_CHANGES).fetchall()
    return Evidence(tables, changes, runs_before, _lines(runs))


def judge(found: Evidence, through_ms: int) -> int:
    """`ViolationError` if a rule was broken; else how many (job, time) up to that time there were."""
    for seen in _retell(found).seen:
        raise seen
    return check(found.tables, through_ms)


def _retell(found: Evidence) -> Watcher:
    watcher = Watcher()
    for word, execution_id, attempt in map(str.split, found.runs_after):
        if word == "succeeds":
            watcher.succeeds(execution_id, int(attempt))
    for execution_id, job_id, origin, job_state, *states in found.changes:
        like = Execution(execution_id, "", 0, job_id, 0, origin, "", 0, 0)
        old, new = (
            like._replace(state=state, attempt=attempt, claim_token=token)
            for state, attempt, token in (states[:3], states[3:])
        )
        watcher.change(old if old.state else None, new, job_state)
    for word, execution_id, attempt in map(str.split, found.runs_before):
        if word == "begins":
            watcher.begins(execution_id, int(attempt))
    return watcher


def _lines(file: Path) -> list[str]:
    """Whole lines only: the last one may be on its way."""
    return file.read_text().split("\n")[:-1] if file.exists() else []
