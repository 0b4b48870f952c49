"""`shardctl rebase`: after a dump was restored into another PostgreSQL."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.connection import connection
from shardwheel.commands.context import DataOption
from shardwheel.errors import ConflictError
from shardwheel.output import Format, FormatOption, agreed, print_thing
from shardwheel.store.rebase import count_foreign
from shardwheel.store.rebase import rebase as rebase_all

app = typer.Typer(add_completion=False)


@app.command()
def rebase(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Let shards go on with a dump that was restored into another PostgreSQL. Said twice, the same.

    Transaction ids start again there, so no shard takes a partition before this. Everything then goes on from
    the claim floor; what had run is dropped at the claim. It rewrites every job's row, and wants the role
    that migrations run as. A physical backup, or a fail-over to a replica, does not need it.

    Example:

        pg_restore -d postgresql://… shardwheel.dump && shardctl rebase --yes
    """
    with connection(data) as conn:
        foreign = count_foreign(conn)
        question = f"Go on with {foreign} partitions in this PostgreSQL?"
        if foreign and not yes and not agreed(question):
            raise ConflictError("nothing was rebased: say --yes, or answer y at the terminal")
        rebased = rebase_all(conn)
    print_thing({"partitions": rebased}, output)
