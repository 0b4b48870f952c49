"""`shardctl dev restart`: services begin anew, with handlers as they are now. Servers stay up.

Each is asked to end as any service is (a worker finishes what it holds, a shard hands over), and the stack
starts what has ended. One that does not come up again, such as a worker whose handlers can't be imported, is
said at once: nobody should wait for it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from shardwheel.compose.services import SERVICES
from shardwheel.compose.stack import Stack
from shardwheel.compose.state import Process
from shardwheel.errors import NotFoundError, ShardwheelError

PAUSE_S = 0.05


def restart_services(look: Callable[[], Stack], role: str, limit_s: float) -> list[str]:
    """End all of a role, or one by its id; their ids, once each is up again."""
    stack = look()
    chosen = services_of(stack, role)
    for row in chosen.values():
        _ask_to_end(stack, row)
    give_up_at_s = time.monotonic() + limit_s
    while late := not_yet_back(chosen, look()):
        if time.monotonic() > give_up_at_s:
            raise ShardwheelError(
                f"{', '.join(late)}: not back within {limit_s:g} s; see `shardctl dev logs {late[0]}`"
            )
        time.sleep(PAUSE_S)
    return list(chosen)


def services_of(stack: Stack, role: str) -> dict[str, Process]:
    services = {line.role for line in SERVICES}
    chosen = {row.id: row for row in stack.processes if row.role in services and role in (row.role, row.id)}
    if not chosen:
        known = ", ".join(dict.fromkeys(row.role for row in stack.processes if row.role in services))
        raise NotFoundError(f"this stack has no service {role!r}; it has: {known}")
    return chosen


def not_yet_back(before: dict[str, Process], stack: Stack) -> list[str]:
    """Those that are still on their way. One that died again has tried: waiting would not help it."""
    late = []
    for row in stack.processes:
        if row.id in before and not (row.state == "running" and row.pid != before[row.id].pid):
            late.append(row.id)
            if row.restarts > before[row.id].restarts + 1:
                raise ShardwheelError(f"{row.id} does not come up: see `shardctl dev logs {row.id}`")
    return late


def _ask_to_end(stack: Stack, row: Process) -> None:
    """Through a descriptor: a pid may change hands between the look and the signal."""
    if row.pid is None:
        return
    with suppress(ProcessLookupError):
        process = os.pidfd_open(row.pid)
        try:
            if row.pid in stack.alive():
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)
