"""Print the ends of logs, and what is added to them from then on, in whole lines.

Several logs are told apart by their names at the start of each line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

LOOK_EVERY_S = 0.2


def follow(paths: Mapping[str, Path], lines: int, until: Callable[[], bool]) -> None:
    """The last `lines` of each log by name, then what comes, until `until` says that nothing more will."""
    tails = [_Tail(path, f"{name}: " if len(paths) > 1 else "") for name, path in paths.items()]
    for tail in tails:
        tail.print_end(lines)
    while True:
        # Asked before the last look, so that what was written until then is printed.
        over = until()
        for tail in tails:
            tail.print_added(unfinished_too=over)
        sys.stdout.flush()
        if over:
            return
        time.sleep(LOOK_EVERY_S)


class _Tail:
    """One log, and up to where it was printed."""

    def __init__(self, path: Path, prefix: str) -> None:
        self._path, self._prefix = path, prefix
        self._offset = 0

    def print_end(self, lines: int) -> None:
        content = self._read(0)
        whole = content[: content.rfind(b"\n") + 1]
        self._offset = len(whole)
        self._print(whole.splitlines()[-lines:] if lines else [])

    def print_added(self, *, unfinished_too: bool) -> None:
        added = self._read(self._offset)
        if not unfinished_too:
            added = added[: added.rfind(b"\n") + 1]
        self._offset += len(added)
        self._print(added.splitlines())

    def _read(self, offset: int) -> bytes:
        try:
            with self._path.open("rb") as log:
                # A log that shrank has moved aside: the new one is read from its start.
                self._offset = offset if log.seek(0, os.SEEK_END) >= offset else 0
                log.seek(self._offset)
                return log.read()
        except FileNotFoundError:
            return b""

    def _print(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            sys.stdout.write(f"{self._prefix}{line.decode(errors='replace')}\n")
