"""Notes of running attempts, and which of them are asked to stop. Twins of the .sql files."""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.memory.connection import Given, Written, statement
from shardwheel.memory.rows import EXECUTION_LOGS, EXECUTIONS, Execution, LogRow, put_execution
from shardwheel.memory.settle_statements import current
from shardwheel.memory.transaction import Transaction


@statement("write_notes")
def write_notes(transaction: Transaction, given: Given) -> list[Any]:
    names = ("execution_ids", "attempts", "tokens", "first_lines", "progress", "counts", "lines")
    for execution_id, attempt, token, first_line, progress, count, lines in sorted(
        zip(*(given[name] for name in names), strict=True)
    ):
        row = current(transaction, execution_id, attempt, token)
        if row is None:
            continue
        if progress:
            put_execution(transaction, row._replace(progress=progress))
        key = (execution_id, attempt, first_line)
        if count and transaction.get(EXECUTION_LOGS, key) is None:
            size = len(lines.encode())
            transaction.put(EXECUTION_LOGS, key, LogRow(*key, row.tenant_id, size, lines.encode()))
            _trim(transaction, execution_id, given["log_limit"])
    return []


def _trim(transaction: Transaction, execution_id: bytes, most_bytes: int) -> None:
    kept = 0
    for row in reversed(_logs_of(transaction, execution_id)):
        kept += row.size
        if kept > most_bytes:
            transaction.put(EXECUTION_LOGS, (execution_id, row.attempt, row.first_line), None)


def _logs_of(transaction: Transaction, execution_id: bytes) -> list[LogRow]:
    return sorted(row for key, row in transaction.rows(EXECUTION_LOGS) if row.execution_id == execution_id)


@statement("store_checkpoint")
def store_checkpoint(transaction: Transaction, given: Given) -> list[Any]:
    row = _current(transaction, given)
    if row is None:
        return []
    data = msgspec.json.encode(msgspec.json.decode(given["data"]))
    put_execution(transaction, row._replace(checkpoint=data))
    return [Written()]


@statement("load_checkpoint")
def load_checkpoint(transaction: Transaction, given: Given) -> list[Any]:
    row = _current(transaction, given)
    return [] if row is None else [(row.checkpoint,)]


def _current(transaction: Transaction, given: Given) -> Execution | None:
    return current(transaction, given["execution_id"], given["attempt"], given["token"])


@statement("read_logs")
def read_logs(transaction: Transaction, given: Given) -> list[Any]:
    return [
        (row.attempt, row.first_line, row.lines)
        for row in _logs_of(transaction, given["execution_id"])
        if row.tenant_id == given["tenant_id"] and given["attempt"] in (None, row.attempt)
    ]


@statement("to_stop")
def to_stop(transaction: Transaction, given: Given) -> list[Any]:
    return [
        (row.execution_id,)
        for _, row in transaction.rows(EXECUTIONS)
        if row.worker == given["worker"] and row.asked_to_stop and row.state == "running"
    ]
