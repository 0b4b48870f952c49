"""`shardctl top`: the cluster at a glance, again and again, from what the API's lists say."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from shardwheel.commands.calling import Api
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import ForbiddenError, UnavailableError
from shardwheel.output import Format, console, shown_cell

app = typer.Typer(add_completion=False)

# So many of the latest executions are looked at: of a busier cluster the rate is a lower bound, and says so.
LOOKED_AT = 200
RATE_S = 10.0
LAST_ENDS = 8


@verb(app)
def top(
    at: Terminal,
    once: Annotated[bool, typer.Option("--once", help="One frame, for scripts (`-o json` too).")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.5, max=60)] = 2.0,
) -> None:
    """A live view: fires a second, what is held and why, the pools' lag, shards, oldest due, last ends.

    Ctrl-C ends it. A token without the role operator sees only its own executions.

    Examples:

        shardctl top

        shardctl top --once -o json
    """
    if once or at.output is not Format.table:
        frame = look(at.api, datetime.now(UTC))
        if at.is_for_people:
            console().print(rendered(frame))
        else:
            at.show(frame)
        return
    _watch(at.api, every)


def _watch(api: Api, every_s: float) -> None:
    frame = look(api, datetime.now(UTC))
    with Live(rendered(frame), console=console(), screen=sys.stdout.isatty(), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(every_s)
                try:
                    frame = look(api, datetime.now(UTC))
                    live.update(rendered(frame), refresh=True)
                except UnavailableError as error:
                    live.update(Group(rendered(frame), Text(f"\n{error}", style="red")), refresh=True)
        except KeyboardInterrupt:
            return


def look(api: Api, now: datetime) -> dict[str, Any]:
    """One frame. What the token may not see, or nobody knows now, is None."""
    latest: list[dict[str, Any]] = api.get("/executions", limit=LOOKED_AT)["items"]
    # Not by the latest ones: what runs for hours is none of them.
    running = api.get("/executions", state="running", limit=LOOKED_AT)["items"]
    held = api.get("/executions", state="held", limit=LOOKED_AT)["items"]
    letters = api.get("/dead-letters", limit=LOOKED_AT)["items"]
    shards = _if_allowed(lambda: api.get("/shards")["items"])
    partitions = _if_allowed(lambda: api.get("/partitions")["items"])
    pools = _if_allowed(lambda: api.get("/pools")["items"])
    behind = [row["behind_s"] for row in partitions or () if row["behind_s"] is not None and row["jobs"]]
    ends = [one for one in latest if one["ended_at"]]
    return {
        "at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **rate(latest, now),
        "running": len(running),
        "held": dict(Counter(one["reason"] or "held" for one in held)),
        "dead_letters": len(letters),
        "oldest_due_s": max(behind, default=0.0) if partitions is not None else None,
        "pools": None if pools is None else {row["id"]: row["lag"] for row in pools},
        "shards": None if shards is None else [_shard(row) for row in shards],
        "last_ends": [_end(one) for one in sorted(ends, key=lambda one: one["ended_at"], reverse=True)][
            :LAST_ENDS
        ],
    }


def rate(latest: list[dict[str, Any]], now: datetime) -> dict[str, Any]:
    """Starts a second over the last seconds; `at_least` when more may have started than were looked at."""
    since = now - timedelta(seconds=RATE_S)
    started = [
        one for one in latest if one["started_at"] and datetime.fromisoformat(one["started_at"]) >= since
    ]
    return {"fires_per_s": round(len(started) / RATE_S, 1), "at_least": len(started) >= LOOKED_AT}


def _if_allowed(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (ForbiddenError, UnavailableError):
        return None


def _shard(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("id", "state", "leader", "partitions", "standbys")}


def _end(one: dict[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in ("id", "task", "state", "ended_at", "duration_ms")}


def rendered(frame: dict[str, Any]) -> RenderableType:
    figures = Table(box=None, pad_edge=False, show_header=False)
    figures.add_column(style="bold")
    figures.add_column(overflow="fold")
    more = "at least " if frame["at_least"] else ""
    figures.add_row("fires/s", f"{more}{frame['fires_per_s']:g} over the last {RATE_S:g} s")
    figures.add_row("running", _many(frame["running"]))
    held = sum(frame["held"].values())
    figures.add_row("held", ("at least: " if held >= LOOKED_AT else "") + _counts(frame["held"]))
    figures.add_row("pools' lag", "not known" if frame["pools"] is None else _counts(frame["pools"]))
    oldest = frame["oldest_due_s"]
    figures.add_row("oldest due", "not known" if oldest is None else f"{oldest:g} s behind")
    figures.add_row("dead letters", _many(frame["dead_letters"]))
    parts: list[RenderableType] = [Text(f"shardctl top, {frame['at']}", style="dim"), figures, Text()]
    if frame["shards"] is not None:
        parts += [_table(frame["shards"], ["id", "state", "leader", "partitions", "standbys"]), Text()]
    parts.append(_table(frame["last_ends"], ["id", "state", "task", "duration_ms"]))
    return Group(*parts)


def _many(count: int) -> str:
    """A list is asked for no more than that."""
    return f"{LOOKED_AT} or more" if count >= LOOKED_AT else str(count)


def _counts(counts: dict[str, Any]) -> str:
    known = [f"{name} {'?' if count is None else count}" for name, count in sorted(counts.items())]
    return ", ".join(known) or "nothing"


def _table(rows: list[dict[str, Any]], columns: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper().replace("_", " "), no_wrap=column == "id", overflow="fold")
    for row in rows:
        table.add_row(*(shown_cell(row[column]) for column in columns))
    return table
