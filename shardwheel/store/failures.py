"""What a driver's error means for whoever waits for the answer: one pure decision.

- CONFLICT: two transactions met (serialization, deadlock). Nothing was applied: do it again.
- LOST: the connection is gone, or ends with this error. Before COMMIT was sent nothing was applied.
- UNAVAILABLE: the server is there but can't now (a time-out, no room, no longer the primary).
- THEIRS: the statement's own failure (a constraint, a wrong value): the caller must see it as it is.
"""

from __future__ import annotations

from enum import Enum, auto

import psycopg

_CONFLICTS = {"40001", "40P01"}
# By class: connection, resources, operator intervention (cancelled, shutting down), system error.
_UNAVAILABLE_CLASSES = {"08", "53", "57", "58"}
# A lock not had in time; a server that became read-only, most likely because it was demoted.
_UNAVAILABLE = {"55P03", "25006"}
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
    if closed or error.diag.severity_nonlocalized in _FATAL:
        return Meaning.LOST
    if state is None:
        return Meaning.LOST if isinstance(error, psycopg.OperationalError) else Meaning.THEIRS
    if state in _CONFLICTS:
        return Meaning.CONFLICT
    if state in _UNAVAILABLE or state[:2] in _UNAVAILABLE_CLASSES:
        return Meaning.UNAVAILABLE
    return Meaning.THEIRS
