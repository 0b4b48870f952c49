"""The rows that are done, kept as they come: a run that breaks after 50 minutes goes on where it ended.

A line a row, as JSON. The first line says of what: rows of another commit, or of another size, are no part of
this run, and the file is refused. What failed is tried again; what did not finish in time is an answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shardwheel.bench.peers.work import Row
from shardwheel.errors import UsageError

FAILED = "failed: "


class Kept:
    """Without a path, nothing is kept."""

    def __init__(self, path: Path | None, of: dict[str, Any]) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        if path is not None:
            self._read(path, json.dumps(of))

    def _read(self, path: Path, of: str) -> None:
        lines = path.read_text().split("\n") if path.exists() else [of, ""]
        if lines[0] != of:
            raise UsageError(f"{path} has rows of {lines[0]}, this is {of}: take it away first", field="keep")
        path.parent.mkdir(parents=True, exist_ok=True)
        # What is behind the last end of line was cut off while it was written.
        self._rows = dict(json.loads(line) for line in lines[1:-1])
        path.write_text("\n".join(lines[:-1]) + "\n")

    def find(self, peer: str, row: str, count: int) -> Row | None:
        return self._rows.get(_key(peer, row, count))

    def add(self, peer: str, row: str, count: int, found: Row) -> None:
        if self._path is None or str(found.get("unfinished", "")).startswith(FAILED):
            return
        with self._path.open("a") as file:
            file.write(json.dumps([_key(peer, row, count), found]) + "\n")


def _key(peer: str, row: str, count: int) -> str:
    return f"{peer} {row} {count}"
