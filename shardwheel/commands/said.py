"""What stands on a command line beside the verb's own words: where the API is, and how to print the answer.

Each may stand before the noun, before the verb or after it, as people type it; what stands later wins.
"""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from shardwheel.output import Format, choose_output

PANEL = "Connection and output"

ApiOption = Annotated[
    str | None, typer.Option("--api", metavar="URL", help="The API's address.", rich_help_panel=PANEL)
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", help="What to show the API; env:NAME and file:PATH say where it is.", rich_help_panel=PANEL
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="The data folder of the `shardctl dev` to talk to.", rich_help_panel=PANEL),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile", help="A cluster that shardwheel.toml names under profiles.", rich_help_panel=PANEL
    ),
]
OutputOption = Annotated[
    Format | None, typer.Option("-o", "--output", help="How to print the answer.", rich_help_panel=PANEL)
]


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"shardctl {version('shardwheel')}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Say which one this is.", is_eager=True, callback=_tell_version)
]


class Said(NamedTuple):
    """None: not said."""

    api: str | None = None
    token: str | None = None
    data: Path | None = None
    profile: str | None = None
    output: Format | None = None


_NOTHING = Said()
_SO_FAR: ContextVar[Said] = ContextVar("said", default=_NOTHING)


def said_so_far() -> Said:
    return _SO_FAR.get()


def hear(**given: Any) -> Said:
    """Keep what was said up to here for whoever comes next on the line; all of it so far."""
    said = said_so_far()._replace(**{name: value for name, value in given.items() if value is not None})
    _SO_FAR.set(said)
    choose_output(said.output)
    return said


def at_first(
    api: ApiOption = None,
    token: TokenOption = None,
    data: DataOption = None,
    profile: ProfileOption = None,
    output: OutputOption = None,
    version: VersionOption = False,
) -> None:
    """The options of `shardctl` itself: a line begins, and nothing was said before it."""
    _SO_FAR.set(_NOTHING)
    before_the_verb(api, token, data, profile, output)


def before_the_verb(
    api: ApiOption = None,
    token: TokenOption = None,
    data: DataOption = None,
    profile: ProfileOption = None,
    output: OutputOption = None,
) -> None:
    hear(api=api, token=token, data=data, profile=profile, output=output)


def noun(help_text: str) -> typer.Typer:
    """A noun, whose verbs come with `verb`."""
    return typer.Typer(help=help_text, no_args_is_help=True, callback=before_the_verb, add_completion=False)
