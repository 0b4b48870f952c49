"""`make demo`: the whole system on a fresh data folder, shown and checked. `--once`: it then stops and exits.

    python -m shardwheel.compose.demo [--once]

The exit code is 0 only if everything that the demo promises was seen to happen, the clean end included. It is
always the embedded stack: what the environment or a shardwheel.toml point elsewhere is left alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import trio
from rich.console import Console
from rich.table import Table

from shardwheel.compose.demo_finding import Finding
from shardwheel.compose.demo_steps import STEPS
from shardwheel.compose.dev import RunningStack, open_stack
from shardwheel.compose.foreground import speaker, until_signalled
from shardwheel.compose.services import Wish
from shardwheel.compose.stack import last_stack
from shardwheel.errors import ShardwheelError
from shardwheel.settings import ENVIRONMENT_PREFIX, Settings

SHARDS = 3
HANDLERS = "shardwheel.compose.demo_handlers"
# Where Kafka's jars are is no part of the stack.
KEPT_VARIABLES = {f"{ENVIRONMENT_PREFIX}CACHE"}


def main() -> int:
    unknown = set(sys.argv[1:]) - {"--once"}
    if unknown:
        print(f"demo: unknown: {' '.join(sorted(unknown))}; the only option is --once", file=sys.stderr)
        return 2
    _leave_alone_what_is_elsewhere()
    try:
        with tempfile.TemporaryDirectory(prefix="shardwheel-demo-", ignore_cleanup_errors=True) as name:
            os.chdir(name)
            return trio.run(_demo, Path(name), "--once" in sys.argv)
    except ShardwheelError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _leave_alone_what_is_elsewhere() -> None:
    for variable in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        if variable not in KEPT_VARIABLES:
            del os.environ[variable]


async def _demo(folder: Path, once: bool) -> int:
    say = speaker(folder / "logs" / "supervisor.log")
    begun_at_s = time.monotonic()
    findings: list[Finding] = []
    async with until_signalled(say):
        async with open_stack(
            Wish(folder=folder, settings=Settings(handlers=HANDLERS), shards=SHARDS), say
        ) as stack:
            findings = await _look(stack)
            _show(findings)
            if not once:
                status = f".venv/bin/shardctl dev status --data {folder}"
                say(f"It stays up until Ctrl-C. In another terminal: {status}")
                await trio.sleep_forever()
    if not findings:
        say("demo: it was stopped before it had shown anything")
        return 1
    return _sum_up([*findings, _the_end(folder)], time.monotonic() - begun_at_s)


async def _look(stack: RunningStack) -> list[Finding]:
    return [finding for step in STEPS for finding in await step(stack)]


def _the_end(folder: Path) -> Finding:
    """Nothing that was started is left. This process itself is the supervisor, and may live."""
    last = last_stack(folder)
    left = [pid for pid in last.alive() if pid != os.getpid()] if last else []
    return Finding("clean end", not left, f"left behind: {left}" if left else "nothing is left running")


def _show(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("part", "", "detail"):
        table.add_column(column.upper())
    for finding in findings:
        table.add_row(finding.part, "[green]ok" if finding.is_well else "[red]BAD", finding.detail)
    Console().print(table)


def _sum_up(findings: list[Finding], took_s: float) -> int:
    bad = [finding for finding in findings if not finding.is_well]
    for finding in bad:
        print(f"demo: {finding.part}: {finding.detail}", file=sys.stderr)
    print(f"demo: {len(findings) - len(bad)} of {len(findings)} checks passed in {took_s:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
