"""`shardctl token create`: a token for the API, signed with the secret of the settings."""

from __future__ import annotations

import getpass
import time
from typing import Annotated

import typer

from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.errors import UsageError
from shardwheel.output import Format, FormatOption, print_thing, shown_time
from shardwheel.times import parse_duration
from shardwheel.tokens import tenant_token

app = typer.Typer(help="Make tokens for the API.", no_args_is_help=True, add_completion=False)


@app.callback()
def token() -> None:
    """Make tokens for the API."""


@app.command()
def create(
    tenant: Annotated[str, typer.Option(help="Whose jobs it is for.")],
    role: Annotated[str, typer.Option(help="viewer, producer, operator or admin.")],
    task: Annotated[
        list[str] | None, typer.Option(help="A task type that it may enqueue; repeat it. Else any.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Who it is for: the audit names them.")] = None,
    ttl: Annotated[str, typer.Option(help="How long it is good for, such as 12h or 30d.")] = "30d",
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Print a token. It can't be taken back before its time is over, but by changing the secret.

    Examples:

        shardctl token create --tenant default --role operator --name ann

        shardctl token create --tenant acme --role producer --task email.send --ttl 12h -o json
    """
    settings = current_settings(data)
    require(settings, "secret")
    if settings.jwt_algorithm != "HS256":
        raise UsageError(
            f"jwt_algorithm: tokens are signed with {settings.jwt_algorithm} by whoever has the private key",
            field="jwt_algorithm",
        )
    ttl_s = parse_duration(ttl, "ttl", least_ms=1000) // 1000
    expires_at_s = int(time.time()) + ttl_s
    made = tenant_token(
        settings.secret,
        tenant=tenant,
        role=role,
        name=name or getpass.getuser(),
        expires_at_s=expires_at_s,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        tasks=task or (),
    )
    if output is Format.table:
        typer.echo(made)
    else:
        shown = {"token": made, "tenant": tenant, "role": role, "expires_at": shown_time(expires_at_s * 1000)}
        print_thing(shown, output)
