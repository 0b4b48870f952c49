"""Calls as scripts: generators that say what to send, how long to pause, what to do in a transaction.

A script decides, and never talks: `Client` and `AsyncClient` each run the same ones, in a handful of lines.
So what is retried, and how one waits for a run, is written once and tested without a server.

    job = yield Send("GET", "/jobs/7")        # answered with a Reply, or with Lost
    yield Pause(0.2)
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Send(NamedTuple):
    """A request. The path comes after `/api/v1`; the body is JSON."""

    method: str
    path: str
    query: Mapping[str, str | int] = MappingProxyType({})
    body: bytes | None = None


class Pause(NamedTuple):
    seconds: float


class Query(NamedTuple):
    """A statement in the transaction of the caller's own connection; answered with its rows, as tuples."""

    conn: Any
    statement: bytes
    parameters: Mapping[str, Any]


class Reply(NamedTuple):
    """What came back, whatever its status."""

    status: int
    body: bytes
    retry_after: str = ""
    content_type: str = "application/json"


class Lost(NamedTuple):
    """Nothing came back. `maybe_sent`: the server may have got the request nevertheless."""

    error: Exception
    maybe_sent: bool


Step: TypeAlias = Send | Pause | Query
Script: TypeAlias = Generator[Step, Any, T]


class Done(NamedTuple, Generic[T]):
    """A script is at its end, and this is what it came to."""

    value: T


def advance(script: Script[T], answer: Any = None) -> Step | Done[T]:
    """Tell a script what its last step was answered with; its next one."""
    try:
        return script.send(answer)
    except StopIteration as end:
        return Done(end.value)
