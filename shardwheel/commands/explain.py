"""`shardctl explain`: why an execution or a job is as it is, and what to do about it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shardwheel.commands.calling import Api
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import NotFoundError

app = typer.Typer(add_completion=False)

# The table is for people: the facts behind it are in the JSON.
COLUMNS = ("id", "kind", "state", "reason", "sentence", "remedy")
LATEST_COLUMNS = ("id", "state", "reason", "sentence", "remedy")


@verb(app)
def explain(
    at: Terminal,
    some_id: Annotated[str, typer.Argument(metavar="EXECUTION|JOB", help="The id of an execution or a job.")],
) -> None:
    """Say why an execution or a job is late, held, skipped, not fired or given up, and what to do.

    Examples:

        shardctl explain 019a95b2-7000-0007-8a3c-0b8f6a0f5c11

        shardctl explain $JOB -o json
    """
    shown = _explained(at.api, some_id)
    at.show(for_people(shown) if at.is_for_people else shown)


def _explained(api: Api, some_id: str) -> dict[str, Any]:
    """Nobody can tell by an id which of the two it is."""
    try:
        found: dict[str, Any] = api.get("/jobs/{}/explain", some_id)
    except NotFoundError:
        found = api.get("/executions/{}/explain", some_id)
    return found


def for_people(shown: dict[str, Any]) -> dict[str, Any]:
    """Without the facts; of a job, with what is to be said of its latest execution."""
    latest = shown["facts"].get("latest_execution")
    lines = {name: shown[name] for name in COLUMNS}
    return lines if latest is None else lines | {f"latest {name}": latest[name] for name in LATEST_COLUMNS}
