"""What a driver's error means for whoever waits for the answer: one pure decision.

- CONFLICT: two transactions met (serialization, deadlock). Nothing was applied: do it again.
- LOST: the connection is gone, or leads to a server that is no longer the primary: take another one.
  Before COMMIT was sent nothing was applied.
- UNAVAILABLE: the server is there but can't now (a time-out, no room).
- THEIRS: the statement's own failure (a constraint, a wrong value): the caller must see it as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

import psycopg

from shardwheel.errors import RefusedError

_CONFLICTS = {"40001", "40P01"}
# By class: connection, resources, operator intervention (cancelled, shutting down), system error.
_UNAVAILABLE_CLASSES = {"08", "53", "57", "58"}
# A lock that was not had in time.
_LOCK_NOT_AVAILABLE = "55P03"
# Every session is opened on a server that takes writes: this one was demoted since.
_READ_ONLY = "25006"
# By class: wrong data, a constraint, a limit of the server's own.
_REFUSED_CLASSES = {"22", "23", "54"}
_FATAL = {"FATAL", "PANIC"}


class Meaning(Enum):
    CONFLICT = auto()
    LOST = auto()
    UNAVAILABLE = auto()
    THEIRS = auto()


def one_line(error: psycopg.Error) -> str:
    """The driver's messages have several lines, of which the log wants one."""
    return " ".join(str(error).split())


def meaning_of(error: psycopg.Error, *, closed: bool) -> Meaning:
    """`closed`: whether the driver holds the connection for closed after the error."""
    state = error.sqlstate
    if closed or state == _READ_ONLY or error.diag.severity_nonlocalized in _FATAL:
        return Meaning.LOST
    if state is None:
        return Meaning.LOST if isinstance(error, psycopg.OperationalError) else Meaning.THEIRS
    if state in _CONFLICTS:
        return Meaning.CONFLICT
    if state == _LOCK_NOT_AVAILABLE or state[:2] in _UNAVAILABLE_CLASSES:
        return Meaning.UNAVAILABLE
    return Meaning.THEIRS


@contextmanager
def data_may_be_refused() -> Iterator[None]:
    """A `RefusedError` for data that can't be packed, or that the server does not take, however often."""
    try:
        yield
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] not in _REFUSED_CLASSES:
            raise
        raise RefusedError(f"{type(error).__name__}: {error.diag.message_primary}") from error
    except (ValueError, struct.error) as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
