"""`shardctl dlq …`: dead letters."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated, Any

import typer

from shardwheel.commands.attempts import show_with_attempts
from shardwheel.commands.filters import (
    LETTER_KEYS,
    AllOption,
    CursorOption,
    DryRunOption,
    FilterOption,
    LimitOption,
    YesOption,
    filter_words,
    require_one,
)
from shardwheel.commands.job_bulk import SHOWN
from shardwheel.commands.reading import json_of
from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import UsageError

app = noun("Dead letters: executions that were given up, with all that is needed to replay them.")

COLUMNS = ["id", "task", "reason", "class", "created_at", "message", "attempt", "state", "job_id"]
LetterId = Annotated[str | None, typer.Argument(help="The dead letter's id.")]
AT_ONCE = 200


@verb(app, "list")
def list_(
    at: Terminal,
    state: Annotated[str, typer.Option(help="open, redriven, discarded or all.")] = "open",
    filters: FilterOption = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List dead letters, the latest first.

    Examples:

        shardctl dlq list --filter task=email.send --filter since=2026-11-20T09:00:00Z

        shardctl dlq list --state redriven -o json
    """
    words = filter_words(filters, LETTER_KEYS)
    at.page(at.api.get("/dead-letters", state=state, limit=limit, cursor=cursor, **words), COLUMNS)


@verb(app)
def show(at: Terminal, letter_id: Annotated[str, typer.Argument(help="The dead letter's id.")]) -> None:
    """Show a dead letter: its attempts, the traceback, where it stood. With -o yaml or json everything that
    it carries: the job as it was, the traceback of every attempt.

    Example:

        shardctl dlq show 6f1c… -o yaml
    """
    letter = at.api.get("/dead-letters/{}", letter_id)
    # The whole row of the job is for whoever makes it anew: JSON and YAML have it.
    shown = {name: letter[name] for name in letter if name != "job"} if at.is_for_people else letter
    show_with_attempts(at, shown)


@verb(app)
def redrive(
    at: Terminal,
    letter_id: LetterId = None,
    filters: FilterOption = None,
    all_: AllOption = False,
    params: Annotated[str | None, typer.Option(help="Other params for this run, as JSON.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Run a dead letter's job again, now, with the letter's params. The same letter again is the same run.

    Of a DAG's task it is the next attempt, and the DAG's run goes on.

    Examples:

        shardctl dlq redrive 6f1c…

        shardctl dlq redrive --filter task=email.send --filter class=TimeoutError --yes
    """
    require_one(letter_id, filters, all_)
    if letter_id is None:
        if params is not None:
            raise UsageError("params: other params need the id of one letter", field="params")
        _deal_with(at, filters, "redrive", dry_run, yes)
        return
    _refuse_dry_run(dry_run)
    body = {} if params is None else {"params": json_of(params, "params")}
    at.show(at.api.post("/dead-letters/{}:redrive", letter_id, body=body))


@verb(app)
def discard(
    at: Terminal,
    letter_id: LetterId = None,
    filters: FilterOption = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Let a dead letter be: nobody will run it again. Said twice, the same.

    Examples:

        shardctl dlq discard 6f1c… --yes

        shardctl dlq discard --filter reason=poison --filter until=2026-11-01T00:00:00Z --yes
    """
    require_one(letter_id, filters, all_)
    if letter_id is None:
        _deal_with(at, filters, "discard", dry_run, yes)
        return
    _refuse_dry_run(dry_run)
    letter = at.api.get("/dead-letters/{}", letter_id)
    told = f"{letter['task']}, {letter['reason']}, of {letter['created_at']}"
    at.agree(f"Discard dead letter {letter_id} ({told})?", "discarded", yes)
    at.show(at.api.post("/dead-letters/{}:discard", letter_id))


def _refuse_dry_run(dry_run: bool) -> None:
    if dry_run:
        raise UsageError("--dry-run: goes with --filter or --all, without an id", field="dry_run")


def _deal_with(at: Terminal, filters: list[str] | None, word: str, dry_run: bool, yes: bool) -> None:
    """All that the filter means, a page at a time: what was done stays done if it is cut off."""
    done_word = {"redrive": "redriven", "discard": "discarded"}[word]
    body: dict[str, Any] = dict(filter_words(filters, LETTER_KEYS)) or {"all": True}
    count = at.api.post(f"/dead-letters:{word}", body=body | {"dry_run": True})["count"]
    if dry_run:
        at.show({f"would_be_{done_word}": count})
        return
    if count:
        told = "" if yes else _told(at, body, count)
        at.agree(f"{told}{word.capitalize()} {count} dead letters?", done_word, yes)
    done, refused, cursor = 0, Counter[str](), None
    while True:
        page = {"limit": AT_ONCE} if cursor is None else {"limit": AT_ONCE, "cursor": cursor}
        dealt = at.api.post(f"/dead-letters:{word}", body=body | page)
        done += dealt["done"]
        refused.update(dealt["refused"])
        cursor = dealt["next_cursor"]
        if cursor is None:
            break
        sys.stderr.write(f"{done_word} {done} of {count}\n")
    at.show_dealt(done_word, done, refused)


def _told(at: Terminal, body: dict[str, Any], count: int) -> str:
    """The first of those that would be touched, a line each."""
    words = {key: value for key, value in body.items() if key != "all"}
    letters = at.api.get("/dead-letters", limit=SHOWN, **words)["items"]
    lines = [f"  {one['id']}  {one['task']}  {one['reason']}\n" for one in letters]
    return "".join(lines) + (f"  … and {count - len(lines)} more\n" if count > len(lines) else "")
