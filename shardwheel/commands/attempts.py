"""What is shown of attempts: a row each, and the last one's traceback as it was printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from shardwheel.commands.verbs import Terminal

COLUMNS = ["attempt", "outcome", "class", "started_at", "message", "worker", "slot_ms", "ended_at"]


def show_with_attempts(at: Terminal, thing: Mapping[str, Any]) -> None:
    if not at.is_for_people or not thing.get("attempts"):
        at.show(thing)
        return
    attempts = thing["attempts"]
    at.show({name: value for name, value in thing.items() if name != "attempts"})
    typer.echo()
    at.rows(attempts, COLUMNS)
    traceback = None if "traceback" in thing else attempts[-1].get("traceback")
    if traceback:
        typer.echo(f"\n{traceback.rstrip()}")
