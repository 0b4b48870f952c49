"""How commands answer: a table for people, JSON (stable, for scripts) or YAML, always on standard output.

What draws tables or writes YAML is loaded when it is asked for: services print none.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 1_000
COLUMN_GAP = 2
FOLDED_AT = 24
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_SHORT_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Format(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


_CHOSEN: ContextVar[Format | None] = ContextVar("output", default=None)


def choose_output(output: Format | None) -> None:
    """What stands before the verb holds for it too, unless it says otherwise itself."""
    _CHOSEN.set(output)


def _or_as_chosen(context: typer.Context, value: Format) -> Format:
    source = context.get_parameter_source("output")
    is_default = source is not None and source.name == "DEFAULT"
    return (_CHOSEN.get() or value) if is_default else value


FormatOption = Annotated[
    Format, typer.Option("-o", "--output", help="How to print the answer.", callback=_or_as_chosen)
]


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], output: Format) -> None:
    """A list of things: JSON and YAML hold every field, the table the named columns."""
    if output is not Format.table:
        _print_value(list(rows), output)
        return
    from rich.markup import escape
    from rich.table import Table

    out = console()
    shown = _fitting(
        {column: [_short(shown_cell(row.get(column))) for row in rows] for column in columns}, out.width
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in shown:
        # An id is there to be copied: never broken, however narrow the terminal.
        table.add_column(_title(column), overflow="fold", no_wrap=_is_id(column))
    for line in zip(*shown.values(), strict=True):
        table.add_row(*map(escape, line))
    out.print(table)


def print_page(
    items: Sequence[Mapping[str, Any]], next_cursor: str | None, columns: Sequence[str], output: Format
) -> None:
    """A page of a list: with JSON and YAML where the next one goes on, with a table a line about it."""
    if output is not Format.table:
        _print_value({"items": list(items), "next_cursor": next_cursor}, output)
        return
    print_rows(items, columns, output)
    if next_cursor is not None:
        sys.stderr.write(f"there are more: --cursor {next_cursor}\n")


def print_thing(thing: Mapping[str, Any], output: Format) -> None:
    """One thing: in a table, a line a field."""
    if output is not Format.table:
        _print_value(dict(thing), output)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in thing.items():
        table.add_row(name, escape(_lines(value)))
    console().print(table)


def _fitting(cells: Mapping[str, list[str]], width: int) -> dict[str, list[str]]:
    """The columns that a terminal has room for; callers name those first that matter most. Before a time is
    left out, its year is."""
    shown: dict[str, list[str]] = {}
    left = width + COLUMN_GAP
    for column, texts in cells.items():
        spelled = texts if _needed(column, texts) <= left else _without_year(texts)
        if shown and _needed(column, spelled) > left:
            break
        shown[column] = spelled
        left -= _needed(column, spelled)
    return shown


def _needed(column: str, texts: Sequence[str]) -> int:
    return COLUMN_GAP + max([len(_title(column)), *(min(len(text), _most(column)) for text in texts)])


def _without_year(texts: list[str]) -> list[str]:
    """Times of one year; all else as it is."""
    times = [text for text in texts if _SHORT_TIME.fullmatch(text)]
    if len({text[:4] for text in times}) != 1:
        return texts
    return [f"{text[5:10]} {text[11:]}" if _SHORT_TIME.fullmatch(text) else text for text in texts]


def _most(column: str) -> int:
    return PIPE_COLUMNS if _is_id(column) else FOLDED_AT


def _is_id(column: str) -> bool:
    return column == "id" or column.endswith("_id")


def _title(column: str) -> str:
    return column.upper().replace("_", " ")


def _short(text: str) -> str:
    """A time to the second: people read it, JSON has all of it."""
    return f"{text[:19]}Z" if _TIME.fullmatch(text) else text


def console() -> Console:
    """As wide as the terminal; where there is none (a pipe, a file) a line stays a line."""
    from rich.console import Console

    is_wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=PIPE_COLUMNS if is_wide else None)


@lru_cache(maxsize=4_096)
def shown_time(at_ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC. Remembered, since what is shown together often has its
    times in common: the jobs of a batch, the executions of a minute."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown_duration(seconds: float) -> str:
    """As one would post it."""
    whole_ms = round(seconds * 1000)
    return f"{whole_ms}ms" if whole_ms % 1000 else f"{whole_ms // 1000}s"


def make_streams_forgiving() -> None:
    """What a terminal can't show, or nobody reads, is no reason to fail: what was asked for may be done."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def agreed(question: str) -> bool:
    """Whether somebody at the terminal says yes; without a terminal nobody does. A question is no answer: it
    never stands among what a script reads."""
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    said = sys.stdin.readline() if sys.stdin else ""
    if not said:
        sys.stderr.write("\n")
    return said.strip().lower() in ("y", "yes")


def _print_value(value: Any, output: Format) -> None:
    plain = msgspec.to_builtins(value)
    # Scripts read UTF-8, whatever the terminal can show.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    if output is Format.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n")
    else:
        import yaml

        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def _lines(value: Any) -> str:
    """A list of things: a line each, of what is short enough to be read there."""
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        return shown_cell(value)
    return "\n".join(
        ", ".join(f"{name} {_short(shown_cell(one[name]))}" for name in one if _is_brief(one[name]))
        for one in value
    )


def _is_brief(value: Any) -> bool:
    """Not a traceback, and nothing that has parts."""
    return value is not None and not isinstance(value, dict | list) and "\n" not in str(value)


def shown_cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return str(value)
