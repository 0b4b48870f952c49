"""How commands answer: a table for people, JSON (stable, for scripts) or YAML, always on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import typer
import yaml
from rich.console import Console
from rich.table import Table


class Format(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


FormatOption = Annotated[Format, typer.Option("-o", "--output", help="How to print the answer.")]


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], output: Format) -> None:
    """A list of things: JSON and YAML hold every field, the table the named columns."""
    if output is not Format.table:
        _print_value(list(rows), output)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper().replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    Console().print(table)


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
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in thing.items():
        table.add_row(name, _cell(value))
    Console().print(table)


@lru_cache(maxsize=4_096)
def shown_time(at_ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC. Remembered, since what is shown together often has its
    times in common: the jobs of a batch, the executions of a minute."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def agreed(question: str) -> bool:
    """Whether somebody at the terminal says yes; without a terminal nobody does."""
    try:
        return typer.confirm(question)
    except typer.Abort:
        return False


def _print_value(value: Any, output: Format) -> None:
    plain = msgspec.to_builtins(value)
    if output is Format.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n")
    else:
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
