"""Notes of running attempts: progress, log lines, checkpoints. Each is fenced by attempt and claim token.

write_notes(conn, notes, 65536)            progress and lines of many attempts, one statement
store_checkpoint(conn, held, data)         false: this attempt is not the current one any more
read_logs(conn, tenant, execution_id)      the lines that were kept, with marks where some were not
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from psycopg import Connection

from shardwheel.execution import Held, LogLine, Note
from shardwheel.store.arrays import Bigints, Texts, Uuid, Uuids
from shardwheel.store.sql import sql

_decode_lines = msgspec.json.Decoder(list[tuple[int, str, str]]).decode
DROPPED = "dropped"


def write_notes(conn: Connection[Any], notes: Sequence[Note], log_limit_bytes: int) -> None:
    """Write what attempts have said; of those that are not current, nothing. Safe to repeat."""
    parameters = {
        "execution_ids": Uuids([note.execution_id for note in notes]),
        "attempts": Bigints([note.attempt for note in notes]),
        "tokens": Uuids([note.claim_token for note in notes]),
        "progress": Texts([note.progress.decode() for note in notes]),
        "first_lines": Bigints([note.first_line for note in notes]),
        "counts": Bigints([note.line_count for note in notes]),
        "lines": Texts([note.lines.decode() for note in notes]),
        "log_limit": log_limit_bytes,
    }
    conn.execute(sql("write_notes"), parameters, prepare=False)


def store_checkpoint(conn: Connection[Any], held: Held, data: bytes) -> bool:
    """Replace the execution's checkpoint (JSON); false when this attempt is not the current one."""
    return bool(conn.execute(sql("store_checkpoint"), _fence(held) | {"data": data.decode()}).fetchall())


def load_checkpoint(conn: Connection[Any], held: Held) -> bytes | None:
    """The checkpoint as JSON, `null` if there is none; None when this attempt is not the current one."""
    row = conn.execute(sql("load_checkpoint"), _fence(held), binary=True).fetchone()
    return None if row is None else row[0]


def read_logs(
    conn: Connection[Any], tenant_id: str, execution_id: bytes, attempt: int | None = None
) -> list[LogLine]:
    """The lines that were kept, oldest first, of one attempt or of all."""
    given = {"tenant_id": tenant_id, "execution_id": Uuid(execution_id), "attempt": attempt}
    return list(_marked(conn.execute(sql("read_logs"), given, binary=True).fetchall()))


def to_stop(conn: Connection[Any], worker: str) -> frozenset[bytes]:
    """Running executions of this worker that somebody asked to stop."""
    return frozenset(row[0] for row in conn.execute(sql("to_stop"), {"worker": worker}, binary=True))


def _fence(held: Held) -> dict[str, Any]:
    return {
        "execution_id": Uuid(held.execution_id),
        "attempt": held.attempt,
        "token": Uuid(held.claim_token),
    }


def _marked(rows: Sequence[tuple[int, int, bytes]]) -> Iterator[LogLine]:
    """Rows as lines, with a mark wherever the numbers have a gap."""
    seen, expected = 0, 1
    for attempt, first_line, data in rows:
        expected = expected if attempt == seen else 1
        lines = _decode_lines(data)
        if first_line > expected:
            missing = f"{first_line - expected} lines were dropped: only the last ones are kept"
            yield LogLine(attempt, expected, lines[0][0], DROPPED, missing)
        for number, (at_ms, level, text) in enumerate(lines, first_line):
            yield LogLine(attempt, number, at_ms, level, text)
        seen, expected = attempt, first_line + len(lines)
