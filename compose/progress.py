"""Progress on standard error, never on standard output: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType

_WIDTH = 30
_LINE_EVERY_S = 3.0


class Progress:
    """`with Progress("Kafka's jars", 46, 12) as progress: progress.step("zstd-jni.jar")`"""

    def __init__(self, what: str, total: int, done: int = 0) -> None:
        self._what, self._total, self._done = what, total, done
        self._on_terminal = sys.stderr.isatty()
        self._said_at_s = time.monotonic()

    def __enter__(self) -> Progress:
        self._say("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on_terminal:
            print(file=sys.stderr)

    def step(self, item: str) -> None:
        self._done += 1
        now_s = time.monotonic()
        if self._on_terminal or self._done == self._total or now_s - self._said_at_s >= _LINE_EVERY_S:
            self._said_at_s = now_s
            self._say(item)

    def _say(self, item: str) -> None:
        count = f"{self._what}: {self._done}/{self._total}"
        if self._on_terminal:
            filled = _WIDTH * self._done // max(self._total, 1)
            print(f"\r\033[K{count} [{'#' * filled:.<{_WIDTH}}] {item}", end="", file=sys.stderr, flush=True)
        else:
            print(f"{count} {item}".rstrip(), file=sys.stderr, flush=True)
