"""A process that a person watches: what it says, and the signals by which it is stopped.

Lines go to the terminal and to the supervisor's own log: whoever looks later finds the same ones there.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import trio

from shardwheel.compose.supervisor import plain_errors


def speaker(log_path: Path) -> Callable[[str], None]:
    """Says one line on the terminal and appends it, with its time, to the log."""

    def say(line: str) -> None:
        # Neither a terminal that was closed nor a full disk may end the stack or silence the other one.
        with suppress(OSError):
            print(line, flush=True)
        with suppress(OSError):
            log_path.parent.mkdir(parents=True, exist_ok=True)
            with log_path.open("a") as log:
                log.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {line}\n")

    return say


@asynccontextmanager
async def until_signalled(say: Callable[[str], None]) -> AsyncIterator[None]:
    """Cancel the block at the first Ctrl-C, SIGTERM or hang-up; it then ends in good order and quietly."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        with plain_errors():
            async with trio.open_nursery() as watch:
                with trio.CancelScope() as block:
                    watch.start_soon(_cancel_on_signal, signals, block, say)
                    yield
                watch.cancel_scope.cancel()


async def _cancel_on_signal(
    signals: AsyncIterator[int], block: trio.CancelScope, say: Callable[[str], None]
) -> None:
    async for number in signals:
        what = "still stopping" if block.cancel_called else "stopping"
        say(f"{signal.Signals(number).name}: {what}")
        block.cancel()
