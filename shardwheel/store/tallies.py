"""Tallies: how runs ended, told once a second by each result processor; they open and close breakers.

In a transaction of its own, after what it counts was settled: a tally that is lost with its processor makes
a breaker a second late. Closed → open when enough runs of a window failed → a minute later one probe at a
time → closed by a run that succeeded, open again by one that did not. Any run that ends then is as good as
the probe: it says how the task's dependency is now.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from psycopg import Connection

from shardwheel.limits import BREAKER_OPEN_S, BREAKER_RUNS, BREAKER_SHARE, WINDOW_S, Tally, TaskName
from shardwheel.store.arrays import Bigints, Texts
from shardwheel.store.sql import sql
from shardwheel.store.task_types import name_task


def tally(conn: Connection[Any], counted: Mapping[TaskName, Tally], lane: int) -> None:
    """Add what was counted since the last time, and judge the breakers of these task types."""
    names, tallies = list(counted), list(counted.values())
    told = {
        "tenants": Texts([name.tenant_id for name in names]),
        "tasks": Texts([name.task for name in names]),
        "runs": Bigints([one.runs for one in tallies]),
        "failures": Bigints([one.failures for one in tallies]),
    }
    budget = {
        "firsts": Bigints([one.firsts for one in tallies]),
        "retries": Bigints([one.retries for one in tallies]),
        "lane": lane,
    }
    conn.execute(sql("add_tallies"), told | budget)
    rules = {
        "window": timedelta(seconds=WINDOW_S),
        "open_for": timedelta(seconds=BREAKER_OPEN_S),
        "least_runs": BREAKER_RUNS,
        "share": BREAKER_SHARE,
    }
    # The claim asks the type's row whether there is a breaker.
    for tenant_id, task in conn.execute(sql("judge_breakers"), told | rules).fetchall():
        name_task(conn, tenant_id, task)
    conn.execute(sql("drop_tallies"), {"kept": timedelta(seconds=2 * WINDOW_S)})
