"""`shardctl audit …`: who did what to what."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.filters import CursorOption, LimitOption, SinceOption, UntilOption, checked_time
from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb

app = noun("Who did what to what.")

COLUMNS = ["at", "actor", "action", "object_id", "object_kind", "role"]


@verb(app, "list")
def list_(
    at: Terminal,
    actor: Annotated[str | None, typer.Option(help="Who.")] = None,
    action: Annotated[str | None, typer.Option(help="What, such as dead_letter.redrive.")] = None,
    kind: Annotated[str | None, typer.Option(help="To what kind of thing, such as dead_letter.")] = None,
    object_id: Annotated[str | None, typer.Option("--id", help="To this thing only.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List what was done, the latest first.

    Example:

        shardctl audit list --action dead_letter.discard --since 2026-11-20T09:00:00Z
    """
    given = {"actor": actor, "action": action, "object_kind": kind, "object_id": object_id}
    given |= {"from": checked_time(since, "since"), "to": checked_time(until, "until"), "cursor": cursor}
    at.page(at.api.get("/audit", limit=limit, **given), COLUMNS)
