"""What is known about a process of the stack: the supervisor says it, everybody reads it in stack.json."""

from __future__ import annotations

import msgspec


class Process(msgspec.Struct):
    """What is known about a child now. States: starting, running, restarting, stopping, stopped."""

    role: str
    id: str
    pid: int | None
    address: str
    log: str
    state: str = "starting"
    restarts: int = 0
