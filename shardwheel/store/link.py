"""One connection to PostgreSQL: how it is opened, what its session promises, how it is cut.

Every wait of it ends. The server ends statements and transactions that take too long, and frees what
they held when the client is gone. The network reports a dead machine (keep-alives, user time-out). What
neither can report is a server that is frozen while its kernel still acknowledges every packet: only we can
end that wait, by shutting the socket down under the driver. `Link` therefore keeps a second handle on the
socket: its number stays ours even when the driver, in another thread, closes the first one meanwhile.

The driver's own types are left as they are, so that a statement's function works on anyone's connection:
ids are read as `uuid_send(job_id)`, 16 bytes, and xids as `horizon_xid::text::bigint`.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from shardwheel.store.sql import sql

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# How soon the server notices that the client of a running statement is gone.
CLIENT_CHECK_MS = 250
# The driver's own limit is in whole seconds and at least 2.
CONNECT_LIMIT_S = 5
# What a site may override in its DSN. A standby would answer, but every decision reads the primary.
DEFAULTS: dict[str, str] = {
    "client_encoding": "utf8",
    "connect_timeout": str(CONNECT_LIMIT_S),
    "gssencmode": "disable",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "target_session_attrs": "read-write",
}


class Session(NamedTuple):
    """What every link of one kind has in common. `limit_s` is the longest that one transaction may last,
    `planner` what the server's planner is told, if its own choice is not good enough."""

    dsn: str
    name: str
    role: str | None
    limit_s: float
    read_only: bool = False
    planner: Mapping[str, str] = MappingProxyType({})

    def conninfo(self) -> str:
        own = {"application_name": f"shardwheel {self.name}", "tcp_user_timeout": _ms(self.limit_s)}
        return make_conninfo("", **{**DEFAULTS, **own, **conninfo_to_dict(self.dsn)})

    def settings(self) -> dict[str, str]:
        """A statement's limit is a little shorter than the transaction's: its error leaves the session
        intact, whereas a transaction that is too long costs the connection."""
        settings = {
            "TimeZone": "UTC",
            "statement_timeout": _ms(self.limit_s * 0.8),
            "lock_timeout": _ms(self.limit_s * 0.6),
            "transaction_timeout": _ms(self.limit_s),
            "idle_in_transaction_session_timeout": _ms(self.limit_s),
            "client_connection_check_interval": str(CLIENT_CHECK_MS),
            "default_transaction_read_only": "on" if self.read_only else "off",
        }
        if self.role is not None:
            settings["role"] = self.role
        return {**settings, **self.planner}


class Link:
    """An open connection. `served` is true once it came back from a call: it may be stale since."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.served = False
        self._handle = socket.socket(fileno=os.dup(connection.fileno()))
        # Between the two, or a handle that is just being closed could be cut when it is another's already.
        self._handle_lock = threading.Lock()

    @property
    def is_clean(self) -> bool:
        """Open, and between two transactions: good for another call."""
        return self.connection.info.transaction_status is TransactionStatus.IDLE

    def cut(self) -> None:
        """End every wait on this link, from any thread. The thread that uses it closes it."""
        with self._handle_lock, suppress(OSError):
            self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.connection.close()
        with self._handle_lock:
            self._handle.close()


def open_link(session: Session) -> Link:
    """Connect and set the session up; raises the driver's error."""
    connection = psycopg.connect(session.conninfo(), autocommit=True)
    try:
        settings = session.settings()
        connection.execute(
            sql("session"), {"names": list(settings), "values": list(settings.values())}
        ).fetchall()
        connection.autocommit = False
        return Link(connection)
    except BaseException:
        connection.close()
        raise


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))
