"""Producers: logins of PostgreSQL that may store a tenant's jobs in their own transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

from shardwheel.errors import ForbiddenError, NotFoundError
from shardwheel.store.failures import one_line
from shardwheel.store.sql import sql


class Producer(NamedTuple):
    """`tasks`: the task types that it may enqueue; None: any."""

    login: str
    tenant: str
    tasks: list[str] | None


def grant_producer(conn: Connection[Any], login: str, tenant: str, tasks: Sequence[str]) -> None:
    """Said again, the task types of the last time hold."""
    values = {"login": login, "tenant_id": tenant, "tasks": list(tasks) or None}
    try:
        conn.execute(sql("grant_producer"), values)
    except psycopg.errors.UndefinedObject as error:
        raise NotFoundError(error.diag.message_primary or one_line(error), field="login") from error
    except psycopg.errors.InsufficientPrivilege as error:
        remedy = "let an administrator run GRANT shardwheel_producer TO it, then try again"
        raise ForbiddenError(f"login: {one_line(error)}; {remedy}", field="login") from error


def revoke_producer(conn: Connection[Any], login: str, tenant: str) -> bool:
    """Whether there was anything to take away. It stays a member of a role that may then do nothing."""
    return conn.execute(sql("revoke_producer"), {"login": login, "tenant_id": tenant}).rowcount > 0


def list_producers(conn: Connection[Any]) -> list[Producer]:
    return [Producer._make(row) for row in conn.execute(sql("list_producers"))]
