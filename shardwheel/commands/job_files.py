"""`shardctl job export | apply`: jobs and DAGs as a file, and a cluster as a file says.

What a job means is known to much code: it is loaded when one of the two is said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shardwheel.commands.filters import YesOption
from shardwheel.commands.reading import value_of_file
from shardwheel.commands.verbs import Terminal
from shardwheel.errors import UsageError


def export(
    at: Terminal,
    task: Annotated[str | None, typer.Option(help="Of this task type only.")] = None,
    tag: Annotated[str | None, typer.Option(help="With this tag only.")] = None,
) -> None:
    """Print jobs and DAGs as `shardctl job apply` reads them: YAML, or JSON with `-o json`. Those that are
    over, or run only once, are left out.

    Examples:

        shardctl job export > jobs.yaml

        shardctl job export --tag billing -o json
    """
    from shardwheel.commands.job_making import print_all

    print_all(at, task, tag)


def apply(
    at: Terminal,
    file: Annotated[
        Path, typer.Argument(help="YAML or JSON with `jobs:` and `dags:`; - for standard input.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete what an earlier apply of this set made and it has no more."),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Make jobs and DAGs as a file says, and change only what differs. The same file again changes nothing.

    They are found by name (or `id:`), which must be the only one. What apply makes is tagged `apply:SET`, the
    file's `set:` or its name; --prune deletes nothing else.

    Examples:

        shardctl job apply jobs.yaml --dry-run

        shardctl job apply jobs.yaml --prune --yes
    """
    name = file.name.split(".")[0]
    value = value_of_file(file)
    if str(file) == "-" and not (isinstance(value, dict) and value.get("set")):
        raise UsageError("set: standard input has no name; write `set: NAME` in it", field="set")
    from shardwheel.commands.job_making import make_so

    make_so(at, value, name, dry_run=dry_run, prune=prune, yes=yes)
