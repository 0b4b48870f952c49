"""`shardctl dlq …`: dead letters, straight on the store."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

import psycopg
import typer

from shardwheel.commands.connection import TENANT, at_the_terminal, connection
from shardwheel.commands.context import DataOption
from shardwheel.commands.filters import CursorOption, FilterOption, LimitOption, letter_filter
from shardwheel.commands.reading import json_of
from shardwheel.errors import ConflictError, UsageError
from shardwheel.ids import id_of, text_of
from shardwheel.output import Format, FormatOption, agreed, print_page, print_thing
from shardwheel.store import letter_requests, letters
from shardwheel.store.letters import LetterFilter

app = typer.Typer(
    help="Dead letters: executions that were given up, with all that is needed to replay them.",
    no_args_is_help=True,
)

COLUMNS = ["id", "created_at", "task", "reason", "class", "message", "attempt", "state", "job_id"]
LetterId = Annotated[str | None, typer.Argument(help="The dead letter's id.")]
AllOption = Annotated[bool, typer.Option("--all", help="All open ones.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.command("list")
def list_(
    state: Annotated[str, typer.Option(help="open, redriven, discarded or all.")] = "open",
    filters: FilterOption = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """List dead letters, the latest first.

    Examples:

        shardctl dlq list --filter task=email.send --filter since=2026-11-20T09:00:00Z

        shardctl dlq list --state redriven -o json
    """
    wanted = letter_filter(filters, None if state == "all" else state)
    with connection(data) as conn:
        page = letters.list_letters(conn, TENANT, wanted, limit=limit, cursor=cursor)
    print_page(page.items, page.next_cursor, COLUMNS, output)


@app.command()
def show(
    letter_id: Annotated[str, typer.Argument(help="The dead letter's id.")],
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Show a dead letter with everything it carries: the job as it was, every attempt, the traceback."""
    with connection(data) as conn:
        print_thing(letters.get_letter(conn, TENANT, id_of(letter_id)), output)


@app.command()
def redrive(
    letter_id: LetterId = None,
    filters: FilterOption = None,
    all_: AllOption = False,
    params: Annotated[str | None, typer.Option(help="Other params for this run, as JSON.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Run a dead letter's job again, now, with the letter's params. The same letter again is the same run.

    Of a DAG's task it is the next attempt, and the DAG's run goes on.

    Examples:

        shardctl dlq redrive 6f1c…

        shardctl dlq redrive --filter task=email.send --filter class=TimeoutError --yes
    """
    if params is not None and letter_id is None:
        raise UsageError("params: other params need the id of one letter", field="params")
    override = None if params is None else json_of(params, "params")
    with connection(data) as conn:
        if letter_id is not None:
            _refuse_both(filters, all_, dry_run)
            actor = at_the_terminal()
            execution = letter_requests.redrive_letter(conn, TENANT, id_of(letter_id), actor, override)
            print_thing({"id": letter_id, "execution_id": text_of(execution)}, output)
            return
        wanted = _wanted(filters, all_)
        _deal_with(conn, wanted, letter_requests.redrive_some, "redrive", dry_run, yes, output)


@app.command()
def discard(
    letter_id: LetterId = None,
    filters: FilterOption = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Let a dead letter be: nobody will run it again.

    Examples:

        shardctl dlq discard 6f1c… --yes

        shardctl dlq discard --filter reason=poison --filter until=2026-11-01T00:00:00Z --yes
    """
    with connection(data) as conn:
        if letter_id is None:
            wanted = _wanted(filters, all_)
            _deal_with(conn, wanted, letter_requests.discard_some, "discard", dry_run, yes, output)
            return
        _refuse_both(filters, all_, dry_run)
        letter = letters.get_letter(conn, TENANT, id_of(letter_id))
        told = f"{letter['task']}, {letter['reason']}, of {letter['created_at']}"
        _require_agreement(f"Discard dead letter {letter_id} ({told})?", "discarded", yes)
        letter_requests.discard_letter(conn, TENANT, id_of(letter_id), at_the_terminal())
        print_thing({"id": letter_id, "state": "discarded"}, output)


def _wanted(filters: list[str] | None, all_: bool) -> LetterFilter:
    if bool(filters) == all_:
        raise UsageError("say which: an id, --filter KEY=VALUE, or --all", field="filter")
    return letter_filter(filters)


def _refuse_both(filters: list[str] | None, all_: bool, dry_run: bool) -> None:
    if filters or all_ or dry_run:
        raise UsageError("an id goes without --filter, --all and --dry-run", field="id")


def _deal_with(
    conn: psycopg.Connection[Any],
    wanted: LetterFilter,
    some: Callable[..., letter_requests.Dealt],
    verb: str,
    dry_run: bool,
    yes: bool,
    output: Format,
) -> None:
    """All that the filter means, a transaction a page: what was done stays done if it is cut off."""
    done_word = {"redrive": "redriven", "discard": "discarded"}[verb]
    count = letters.count_letters(conn, TENANT, wanted)
    if dry_run:
        print_thing({f"would_be_{done_word}": count}, output)
        return
    if count:
        _require_agreement(f"{verb.capitalize()} {count} dead letters?", done_word, yes)
    done, refused, cursor, actor = 0, Counter[str](), None, at_the_terminal()
    while True:
        dealt = some(conn, TENANT, wanted, actor, cursor=cursor)
        conn.commit()
        done += dealt.done
        refused.update(dealt.refused)
        cursor = dealt.next_cursor
        if cursor is None:
            break
        sys.stderr.write(f"{done_word} {done} of {count}\n")
    print_thing({done_word: done, "refused": dict(refused)}, output)


def _require_agreement(question: str, done_word: str, yes: bool) -> None:
    if not yes and not agreed(question):
        raise ConflictError(f"nothing was {done_word}: say --yes, or answer y at the terminal")
