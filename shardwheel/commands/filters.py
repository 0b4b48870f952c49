"""What `--filter` and the options of lists mean, as in `--filter task=email.send --filter class=OSError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from shardwheel.errors import UsageError
from shardwheel.ids import id_of
from shardwheel.store.letters import LetterFilter
from shardwheel.times import parse_time

FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="KEY=VALUE, may be given several times; keys: task, reason, class, job, tag, since, until.",
    ),
]
LimitOption = Annotated[int, typer.Option(help="At most so many.", min=1, max=200)]
CursorOption = Annotated[str | None, typer.Option(help="Go on where a list stopped: its next_cursor.")]
SinceOption = Annotated[str | None, typer.Option(help="From this time on, such as 2026-11-20T09:00:00Z.")]
UntilOption = Annotated[str | None, typer.Option(help="Before this time.")]

_TEXTS = {"task": "task", "reason": "reason", "class": "error_class", "tag": "tag"}
_TIMES = {"since": "from_ms", "until": "until_ms"}


def letter_filter(pairs: Sequence[str] | None, state: str | None = "open") -> LetterFilter:
    wanted: dict[str, Any] = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator:
            raise UsageError(f"--filter: {pair!r} is not of the form KEY=VALUE", field="filter")
        if key in _TEXTS:
            wanted[_TEXTS[key]] = value
        elif key in _TIMES:
            wanted[_TIMES[key]] = parse_time(value, key)
        elif key == "job":
            wanted["job_id"] = id_of(value, field="job")
        else:
            known = ", ".join([*_TEXTS, "job", *_TIMES])
            raise UsageError(f"--filter: there is no key {key!r}; use {known}", field="filter")
    return LetterFilter(state=state, **wanted)


def time_or_none(text: str | None, field: str) -> int | None:
    return None if text is None else parse_time(text, field)
