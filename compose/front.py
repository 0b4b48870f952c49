"""`shardctl dev` in the foreground: the stack from its start to Ctrl-C, and what is said of it."""

from __future__ import annotations

import time

import msgspec
import trio

from shardwheel.compose.dev import open_stack
from shardwheel.compose.foreground import speaker, until_signalled
from shardwheel.compose.services import Wish
from shardwheel.compose.welcome import welcome
from shardwheel.output import Format, print_rows


def serve(wish: Wish) -> None:
    """Run until a signal."""
    trio.run(_run, wish)


async def _run(wish: Wish) -> None:
    say = speaker(wish.folder / "logs" / "supervisor.log")
    begun_at_s = time.monotonic()
    async with until_signalled(say):
        async with open_stack(wish, say) as stack:
            welcome(stack, say)
            say(f"everything is up after {time.monotonic() - begun_at_s:.1f} s; Ctrl-C stops it")
            print_rows(msgspec.to_builtins(stack.processes), ["id", "pid", "address", "log"], Format.table)
            await trio.sleep_forever()
    say("stopped")
