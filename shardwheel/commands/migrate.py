"""`shardctl migrate`: bring the schema up to this version. Additive: older services keep running."""

from __future__ import annotations

from typing import Annotated

import psycopg
import typer

from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.errors import UnavailableError
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
    settings = current_settings(data)
    require(settings, "postgres_dsn")
    try:
        connection = psycopg.connect(settings.postgres_dsn, connect_timeout=5, autocommit=True)
    except psycopg.OperationalError as error:
        raise UnavailableError(f"PostgreSQL is out of reach: {str(error).strip()}") from error
    with connection:
        applied = apply_migrations(connection, dry_run=dry_run)
    state = "would be applied" if dry_run else "applied"
    rows = [{"number": step.number, "name": step.name, "state": state} for step in applied]
    if not rows and output is Format.table:
        typer.echo("The schema is up to date.")
    else:
        print_rows(rows, ["number", "name", "state"], output)
