"""`shardctl audit …`: who did what to what."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.connection import TENANT, connection
from shardwheel.commands.context import DataOption
from shardwheel.commands.filters import CursorOption, LimitOption, SinceOption, UntilOption, time_or_none
from shardwheel.output import Format, FormatOption, print_page
from shardwheel.store.audit import AuditFilter, list_audit

app = typer.Typer(help="Who did what to what.", no_args_is_help=True)

COLUMNS = ["at", "actor", "role", "action", "object_kind", "object_id"]


@app.callback()
def audit() -> None:
    """Who did what to what."""


@app.command("list")
def list_(
    actor: Annotated[str | None, typer.Option(help="Who.")] = None,
    action: Annotated[str | None, typer.Option(help="What, such as dead_letter.redrive.")] = None,
    kind: Annotated[str | None, typer.Option(help="To what kind of thing, such as dead_letter.")] = None,
    object_id: Annotated[str | None, typer.Option("--id", help="To this thing only.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """List what was done, the latest first.

    Example:

        shardctl audit list --action dead_letter.discard --since 2026-11-20T09:00:00Z
    """
    wanted = AuditFilter(
        actor, action, kind, object_id, time_or_none(since, "since"), time_or_none(until, "until")
    )
    with connection(data) as conn:
        page = list_audit(conn, TENANT, wanted, limit=limit, cursor=cursor)
    print_page(page.items, page.next_cursor, COLUMNS, output)
