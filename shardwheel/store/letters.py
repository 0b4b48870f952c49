"""Dead letters, for people: read them, count those that a filter means. What is done about them is in
`letter_requests`."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.errors import NotFoundError
from shardwheel.ids import text_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.letter_row import LetterContents, LetterRow, both_halves
from shardwheel.store.page import Page, checked_limit, id_of_cursor, number_of_cursor, page_of
from shardwheel.store.sql import sql
from shardwheel.times import END_MS, refuse

LETTER_STATES = ("open", "redriven", "discarded")


class LetterFilter(NamedTuple):
    """Which dead letters; None: whatever. The times are those at which they were given up, the first
    included, the end not. A tag is one that the job had then. `text`: a part of the task, of the error's
    class or of its message, in whatever case."""

    state: str | None = "open"
    task: str | None = None
    reason: str | None = None
    error_class: str | None = None
    job_id: bytes | None = None
    tag: str | None = None
    text: str | None = None
    from_ms: int | None = None
    until_ms: int | None = None


OPEN_LETTERS = LetterFilter()


def list_letters(
    conn: Connection[Any],
    tenant_id: str,
    wanted: LetterFilter = OPEN_LETTERS,
    *,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """A page of dead letters, the latest first."""
    rows = read_page(conn, tenant_id, wanted, limit=checked_limit(limit), cursor=cursor)
    return page_of(rows, limit, LetterRow.as_read, cursor_after)


def get_letter(conn: Connection[Any], tenant_id: str, letter_id: bytes) -> dict[str, Any]:
    """A dead letter as read, with everything it carries."""
    row, contents = read_letter(conn, tenant_id, letter_id)
    return row.as_read() | contents.as_read()


def read_letter(conn: Connection[Any], tenant_id: str, letter_id: bytes) -> tuple[LetterRow, LetterContents]:
    parameters = {"tenant_id": tenant_id, "dead_letter_id": Uuid(letter_id)}
    row = conn.execute(sql("read_letter"), parameters).fetchone()
    if row is None:
        raise NotFoundError(f"there is no dead letter {text_of(letter_id)}", field="id")
    return both_halves(row)


def count_letters(conn: Connection[Any], tenant_id: str, wanted: LetterFilter = OPEN_LETTERS) -> int:
    """How many the filter means now: what a redrive or discard by filter is about to touch."""
    ((count,),) = conn.execute(sql("count_letters"), _parameters(tenant_id, wanted), prepare=False)
    return int(count)


def read_page(
    conn: Connection[Any], tenant_id: str, wanted: LetterFilter, *, limit: int, cursor: str | None
) -> list[LetterRow]:
    """The rows of a page: those after the cursor, which are the older ones."""
    before_ms, before_id = (END_MS, bytes(16)) if cursor is None else _place(cursor)
    page = {"before_ms": before_ms, "before_id": Uuid(before_id), "limit": limit}
    rows = conn.execute(sql("list_letters"), _parameters(tenant_id, wanted) | page, prepare=False)
    return [LetterRow._make(row) for row in rows]


def cursor_after(row: LetterRow) -> str:
    return f"{row.created_ms}.{text_of(row.dead_letter_id)}"


def _place(cursor: str) -> tuple[int, bytes]:
    created_ms, _, letter_id = cursor.partition(".")
    return number_of_cursor(created_ms), id_of_cursor(letter_id)


def _parameters(tenant_id: str, wanted: LetterFilter) -> dict[str, Any]:
    if wanted.state is not None and wanted.state not in LETTER_STATES:
        refuse("state", f"{wanted.state!r:.80} is unknown", f"choose one of {', '.join(LETTER_STATES)}")
    job_id = None if wanted.job_id is None else Uuid(wanted.job_id)
    return {**wanted._asdict(), "job_id": job_id, "tenant_id": tenant_id}
