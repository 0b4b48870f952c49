"""The tables of a real cluster, as the simulation's checker looks at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import psycopg

from shardwheel.memory.rows import Execution, SkipRange
from shardwheel.partition import PARTITIONS
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.ownership import read_partitions
from tests.simulation.checker import Watcher
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


def retell(conn: Connection, runs_before: list[str], runs_after: list[str]) -> Watcher:
    """Tell a watcher of every change of an execution and of every run, from what was written down. Runs are
    read before and after the changes: whatever began had been claimed by then, whatever was settled as
    succeeded had said so before."""
    watcher = Watcher()
    for word, execution_id, attempt in map(str.split, runs_after):
        if word == "succeeds":
            watcher.succeeds(execution_id, int(attempt))
    for execution_id, job_id, origin, job_state, *states in conn.execute(_CHANGES):
        like = Execution(execution_id, "", 0, job_id, 0, origin, "", 0, 0)
        old, new = (
            like._replace(state=state, attempt=attempt, claim_token=token)
            for state, attempt, token in (states[:3], states[3:])
        )
        watcher.change(old if old.state else None, new, job_state)
    for word, execution_id, attempt in map(str.split, runs_before):
        if word == "begins":
            watcher.begins(execution_id, int(attempt))
    return watcher


def read_runs(file: Path) -> list[str]:
    """Whole lines only: the last one may be on its way."""
    return file.read_text().split("\n")[:-1] if file.exists() else []
