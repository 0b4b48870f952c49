"""What `--filter` and the options of lists mean, as in `--filter task=email.send --filter class=OSError`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from shardwheel.errors import UsageError
from shardwheel.times import parse_time

FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="KEY=VALUE, may be given several times; keys: task, reason, class, job, tag, since, until.",
    ),
]
JobFilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="In place of an id: KEY=VALUE, may be given several times; keys: task, tag, q (in its name).",
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="In place of an id: all of them.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
LimitOption = Annotated[int, typer.Option(help="At most so many.", min=1, max=200)]
ManyOption = Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)]
CursorOption = Annotated[str | None, typer.Option(help="Go on where a list stopped: its next_cursor.")]
SinceOption = Annotated[str | None, typer.Option(help="From this time on, such as 2026-11-20T09:00:00Z.")]
UntilOption = Annotated[str | None, typer.Option(help="Before this time.")]

# What people say, and what the API calls it.
LETTER_KEYS = {
    "task": "task",
    "reason": "reason",
    "class": "class",
    "job": "job_id",
    "tag": "tag",
    "since": "from",
    "until": "to",
}
JOB_KEYS = {"task": "task", "tag": "tag", "q": "q"}


def filter_words(pairs: Sequence[str] | None, keys: Mapping[str, str]) -> dict[str, str]:
    words: dict[str, str] = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator or not value:
            such_as = f"such as {next(iter(keys))}=…"
            raise UsageError(
                f"--filter: {pair!r} is not of the form KEY=VALUE; write one {such_as}", field="filter"
            )
        if key not in keys:
            raise UsageError(f"--filter: there is no key {key!r}; use {', '.join(keys)}", field="filter")
        words[keys[key]] = str(checked_time(value, key)) if key in ("since", "until") else value
    return words


def checked_time(text: str | None, field: str) -> str | None:
    """Looked at here, so that the refusal names the word that was said."""
    if text is not None:
        parse_time(text, field)
    return text


def require_one(some_id: str | None, filters: Sequence[str] | None, all_: bool) -> None:
    """An id, a filter or all: one of them, so that nobody touches more than was meant."""
    if sum((some_id is not None, bool(filters), all_)) != 1:
        raise UsageError("say which: an id, --filter KEY=VALUE, or --all; one of them", field="id")
