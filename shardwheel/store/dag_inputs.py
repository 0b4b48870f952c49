"""What a task's parents left for it: read when the handler asks, in one query."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.store.arrays import Uuid
from shardwheel.store.dag_tasks import output_of
from shardwheel.store.sql import sql


class Inputs(NamedTuple):
    """By parent key: its output, or its items' outputs in order; None for a parent that was skipped."""

    outputs: dict[str, Any]
    skipped_parents: list[str]


def load_inputs(conn: Connection[Any], execution_id: bytes) -> bytes:
    """The inputs as JSON, for whoever hands them on."""
    return msgspec.json.encode(read_inputs(conn, execution_id)._asdict())


def read_inputs(conn: Connection[Any], execution_id: bytes) -> Inputs:
    """The inputs of a DAG's task; of anything else, none."""
    rows = conn.execute(sql("dag_inputs"), {"execution_id": Uuid(execution_id)}, binary=True).fetchall()
    outputs, skipped = {}, []
    for (key, fans_out), found in groupby(rows, key=lambda row: (row[0], row[1])):
        executions = [row[2:] for row in found]
        is_skipped = executions[0][0] is None and executions[0][1] == "skipped"
        if is_skipped:
            skipped.append(key)
        outputs[key] = (
            None if is_skipped else output_of(fans_out, ((item_no, out) for item_no, _, out in executions))
        )
    return Inputs(outputs, skipped)
