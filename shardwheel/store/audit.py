"""The audit: who did what to what, written in the transaction that did it, so that neither is there alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.output import shown_time
from shardwheel.store.page import Page, checked_limit, number_of_cursor, page_of
from shardwheel.store.sql import sql

_FROM_THE_LAST = 2**63 - 1


class Actor(NamedTuple):
    """Who acts: a token's subject and role, or whoever sits at the command line."""

    name: str
    role: str = ""


class AuditFilter(NamedTuple):
    """Which entries; None: whatever. The first time is included, the end is not."""

    actor: str | None = None
    action: str | None = None
    object_kind: str | None = None
    object_id: str | None = None
    from_ms: int | None = None
    until_ms: int | None = None


WHOLE_AUDIT = AuditFilter()


class _Entry(NamedTuple):
    audit_id: int
    at_ms: int
    actor: str
    role: str
    action: str
    object_kind: str
    object_id: str
    details: dict[str, Any]

    def as_read(self) -> dict[str, Any]:
        plain = self._asdict()
        return {"id": str(plain.pop("audit_id")), "at": shown_time(plain.pop("at_ms")), **plain}


def write_audit(
    conn: Connection[Any],
    tenant_id: str,
    actor: Actor,
    action: str,
    object_kind: str,
    object_id: str,
    details: Mapping[str, Any],
) -> None:
    """Put an act on record: `details` say what was before and what is after."""
    values = {
        "tenant_id": tenant_id,
        "actor": actor.name,
        "role": actor.role,
        "action": action,
        "object_kind": object_kind,
        "object_id": object_id,
        "details": msgspec.json.encode(details).decode(),
    }
    conn.execute(sql("write_audit"), values)


def list_audit(
    conn: Connection[Any],
    tenant_id: str,
    wanted: AuditFilter = WHOLE_AUDIT,
    *,
    limit: int = 100,
    cursor: str | None = None,
) -> Page:
    """A page of the audit, the latest entry first."""
    parameters = {
        **wanted._asdict(),
        "tenant_id": tenant_id,
        "before": _FROM_THE_LAST if cursor is None else number_of_cursor(cursor),
        "limit": checked_limit(limit),
    }
    rows = conn.execute(sql("list_audit"), parameters, prepare=False).fetchall()
    entries = [_Entry._make(row) for row in rows]
    return page_of(entries, limit, _Entry.as_read, lambda entry: str(entry.audit_id))
