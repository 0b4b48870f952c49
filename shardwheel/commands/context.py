"""Where a command's settings come from: flags, environment, file, and the `dev` stack that runs here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from shardwheel.commands.said import said_so_far
from shardwheel.compose.stack import running_stack
from shardwheel.errors import UsageError
from shardwheel.settings import FILE_NAME, Settings, load_settings, settings_file

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="The data folder of the `shardctl dev` to talk to.",
        callback=lambda value: value or said_so_far().data,
    ),
]


def current_settings(data: Path | None = None, **flags: Any) -> Settings:
    """The settings of this command. A running `dev` (in `data` or the default folder) fills the gaps."""
    environ = dict(os.environ)
    folder = data or (Path(environ["SHARDWHEEL_DATA"]) if environ.get("SHARDWHEEL_DATA") else None)
    stack = running_stack(folder)
    if data is not None and stack is None:
        raise UsageError(
            f"--data: no `shardctl dev` runs on {data}; start one with: shardctl dev --data {data}"
        )
    return load_settings(
        flags=flags,
        environ=environ,
        file=settings_file(),
        stack=stack.settings if stack else None,
        profile=said_so_far().profile,
    )


def require(settings: Settings, *names: str) -> None:
    """Refuse to start without what the command can't do without, naming the variable to set."""
    for name in names:
        if not getattr(settings, name):
            variable = f"SHARDWHEEL_{name.upper()}"
            raise UsageError(
                f"{name} is not set: start `shardctl dev`, set {variable}, or write it to {FILE_NAME}",
                field=name,
            )
