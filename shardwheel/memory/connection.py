"""A connection whose statements are functions: the store's own code runs on it, without PostgreSQL.

`store/*.py` asks for statements by name (`sql("claim")`); here each name has a function on a transaction
that does what the file's SQL does. So everything above the statements is the code that runs in production,
and only the statements themselves have a twin, which tests/contract/test_loop_store.py keeps honest.

    @statement("floor")
    def floor(transaction, given): ...      returns rows; `given` are the parameters as plain values
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shardwheel.memory.transaction import Transaction
from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuid, Uuids
from shardwheel.store.sql import sql

Given = dict[str, Any]
Statement = Callable[[Transaction, Given], list[Any]]

_STATEMENTS: dict[bytes, str] = {}
STATEMENTS: dict[str, Statement] = {}
# Behind an array's header come its elements, each after its length.
_ARRAY_HEADER = 20


class Written(NamedTuple):
    """One row that a statement without RETURNING has written: it counts, and nobody reads it."""


def statement(name: str) -> Callable[[Statement], Statement]:
    """Make the function the twin of store/<name>.sql."""

    def register(function: Statement) -> Statement:
        _STATEMENTS[sql(name)] = name
        STATEMENTS[name] = function
        return function

    return register


def plain_statement(text: str) -> Callable[[Statement], Statement]:
    """The same for the few that are written where they are used."""

    def register(function: Statement) -> Statement:
        _STATEMENTS[text.encode()] = text
        STATEMENTS[text] = function
        return function

    return register


class Answer:
    """What a cursor is after its statement."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def fetchall(self) -> list[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    @property
    def rowcount(self) -> int:
        return len(self._rows)


class MemoryConnection:
    # What psycopg makes of rows: here they are tuples whatever it says.
    row_factory: Any = None

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction

    def execute(
        self,
        text: bytes | str,
        params: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        binary: bool = False,
        prepare: bool | None = None,
    ) -> Answer:
        name = _STATEMENTS[text.encode() if isinstance(text, str) else text]
        named = params if isinstance(params, Mapping) else {}
        given = {key: _plain(value) for key, value in named.items()}
        return Answer(STATEMENTS[name](self.transaction, given))


def _plain(value: Any) -> Any:
    """A packed parameter as what was packed."""
    if isinstance(value, Uuid):
        return value.data
    if isinstance(value, Uuids):
        body = value.data[_ARRAY_HEADER:]
        return [body[at + 4 : at + 20] for at in range(0, len(body), 20)]
    if isinstance(value, Bigints):
        return [number for _, number in struct.iter_unpack(">iq", value.data[_ARRAY_HEADER:])]
    if isinstance(value, Booleans):
        return [flag == 1 for _, flag in struct.iter_unpack(">ib", value.data[_ARRAY_HEADER:])]
    if isinstance(value, Texts):
        return list(_texts(value.data[_ARRAY_HEADER:]))
    return value


def _texts(body: bytes) -> Iterator[str]:
    at = 0
    while at < len(body):
        start = at + 4
        at = start + int.from_bytes(body[at:start], "big")
        yield body[start:at].decode()
