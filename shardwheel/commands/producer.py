"""`shardctl producer`: which logins of PostgreSQL may store whose jobs in their own transactions."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.connection import connection
from shardwheel.commands.context import DataOption
from shardwheel.errors import NotFoundError
from shardwheel.output import Format, FormatOption, print_rows, print_thing
from shardwheel.store import producers

app = typer.Typer(
    help="Let applications store jobs in their own transactions (client.enqueue with conn).",
    no_args_is_help=True,
    add_completion=False,
)
Login = Annotated[str, typer.Argument(help="The role that the application logs in as.")]
Tenant = Annotated[str, typer.Option(help="Whose jobs it stores.")]


@app.command("grant")
def grant(
    login: Login,
    tenant: Tenant,
    task: Annotated[
        list[str] | None, typer.Option(help="A task type that it may enqueue; repeat it. Else any.")
    ] = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Allow a login to store a tenant's jobs. Said again, the task types of the last time hold.

    Example:

        shardctl producer grant shop --tenant acme --task email.send
    """
    with connection(data) as conn:
        producers.grant_producer(conn, login, tenant, task or ())
    print_thing({"login": login, "tenant": tenant, "tasks": task or None}, output)


@app.command("revoke")
def revoke(
    login: Login, tenant: Tenant, data: DataOption = None, output: FormatOption = Format.table
) -> None:
    """Take it back. What it stored stays.

    Example:

        shardctl producer revoke shop --tenant acme
    """
    with connection(data) as conn:
        if not producers.revoke_producer(conn, login, tenant):
            raise NotFoundError(
                f"login: {login} stores no jobs for {tenant}; see: shardctl producer list", field="login"
            )
    print_thing({"login": login, "tenant": tenant, "state": "revoked"}, output)


@app.command("list")
def list_(data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Who may store whose jobs.

    Example:

        shardctl producer list -o json
    """
    with connection(data) as conn:
        rows = [producer._asdict() for producer in producers.list_producers(conn)]
    print_rows(rows, ["login", "tenant", "tasks"], output)
