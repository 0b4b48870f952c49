"""One entry of another scheduler, and what becomes of it here: a job as posted, or the reason why none does.

Nothing here executes what it reads, connects to anything or reads a clock: `now_ms` is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from shardwheel.errors import UsageError
from shardwheel.posting import LONGEST_NAME, parse_posting


class Imported(NamedTuple):
    """`source` says where the entry stands. `notes`: what differs here, for people. `refused`: why `job` is
    None."""

    source: str
    job: dict[str, Any] | None
    notes: tuple[str, ...] = ()
    refused: str | None = None


def every_of(seconds: float) -> str:
    """An interval as one posts it, however long: in whole milliseconds."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


class Entries:
    """What a file holds, in its order. Names are made unique, so that `shardctl job apply` can tell them
    apart."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._names: set[str] = set()
        self.items: list[Imported] = []

    def take(self, source: str, job: Mapping[str, Any], notes: Iterable[str] = ()) -> None:
        """Keep an entry if this scheduler would take it, else say why it would not."""
        fields = {name: value for name, value in job.items() if value is not None}
        fields["name"] = self._unique(str(fields.get("name") or fields["task"]))
        try:
            plain: dict[str, Any] = msgspec.to_builtins(fields)
            parse_posting(plain).timing(self._now_ms)
        except (UsageError, TypeError) as error:
            self.refuse(source, str(error), notes)
            return
        self.items.append(Imported(source, plain, tuple(notes)))

    def refuse(self, source: str, reason: str, notes: Iterable[str] = ()) -> None:
        self.items.append(Imported(source, None, tuple(notes), reason))

    def _unique(self, name: str) -> str:
        stem, number, found = name[: LONGEST_NAME - 8], 1, name[:LONGEST_NAME]
        while found in self._names:
            number += 1
            found = f"{stem} ({number})"
        self._names.add(found)
        return found
