"""`shardctl migrate`: bring the schema up to this version. Additive: older services keep running."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.connection import connection
from shardwheel.commands.context import DataOption
from shardwheel.output import Format, FormatOption, print_rows
from shardwheel.store.migrate import migrate as apply_migrations

app = typer.Typer(add_completion=False)


@app.command()
def migrate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be applied; change nothing.")
    ] = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Apply the migrations that the database does not have yet.

    Two at once are safe: the second waits, then finds nothing to do.

    Examples:

        shardctl migrate --dry-run

        SHARDWHEEL_POSTGRES_DSN=postgresql://… shardctl migrate
    """
    with connection(data, autocommit=True) as conn:
        applied = apply_migrations(conn, dry_run=dry_run)
    state = "would be applied" if dry_run else "applied"
    rows = [{"number": step.number, "name": step.name, "state": state} for step in applied]
    if not rows and output is Format.table:
        typer.echo("The schema is up to date.")
    else:
        print_rows(rows, ["number", "name", "state"], output)
