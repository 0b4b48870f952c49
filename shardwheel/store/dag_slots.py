"""Runs that go on after their end, of DAGs whose runs must not overlap.

A run gives its DAG's slot back when it ends. To go on, by a rerun, a redrive or another hand, it needs the
slot again: from then on fires of that DAG wait for it, or are skipped, as for any run. Another run may have
it; then this one stays as it is, and whoever asked is told. The primary key of the slots decides, so of two
that ask at once, or of one and a fire, one gets it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from psycopg import Connection

from shardwheel.errors import ConflictError
from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuids
from shardwheel.store.sql import sql


class OverlapError(ConflictError):
    """Runs can't go on now: others of their DAGs are under way. What was changed is to be rolled back."""

    def __init__(self, run_ids: Collection[bytes], others: Collection[bytes]) -> None:
        under_way = " and ".join(f"run {text_of(one)}" for one in sorted(others)) or "another run"
        names = ", ".join(map(text_of, sorted(run_ids)))
        super().__init__(
            f"run {names} would overlap: {under_way} of the same DAG is not over, and the DAG's overlap is "
            "not allow; wait until that is over, or cancel it",
            field="run",
        )
        self.run_ids = frozenset(run_ids)


def take_slots(conn: Connection[Any], run_ids: Collection[bytes]) -> None:
    """Take the slots of runs that go on, whose executions this transaction has locked."""
    given = {"run_ids": Uuids(sorted(run_ids))}
    wanted = dict(conn.execute(sql("dag_take_slots"), given, binary=True, prepare=False).fetchall())
    if not wanted:
        return
    of_dags = {"dag_ids": Uuids(sorted(set(wanted.values())))}
    # A statement of its own: it sees what was committed by whoever the first one waited for.
    holders = dict(conn.execute(sql("dag_slots_taken"), of_dags, binary=True, prepare=False).fetchall())
    refused = {run_id: dag_id for run_id, dag_id in wanted.items() if holders.get(dag_id) != run_id}
    if refused:
        raise OverlapError(refused, {holders[dag_id] for dag_id in refused.values() if dag_id in holders})
