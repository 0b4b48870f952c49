"""`shardctl job export | apply`: jobs and DAGs as a file, and a cluster as a file says."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from shardwheel.commands.applying import (
    Entry,
    Kind,
    Step,
    Wanted,
    exported,
    plan,
    read_wanted,
    summary,
)
from shardwheel.commands.filters import YesOption
from shardwheel.commands.reading import value_of_file
from shardwheel.commands.verbs import Terminal
from shardwheel.errors import ConflictError, UsageError
from shardwheel.output import Format, print_thing

PLURALS: dict[Kind, str] = {"job": "jobs", "dag": "dags"}
MARKS = {"create": "+", "change": "~", "delete": "-"}


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
    found = {
        PLURALS[kind]: [exported(kind, thing) for thing in _things(at, kind, task=task, tag=tag)]
        for kind in PLURALS
    }
    print_thing(found, Format.json if at.output is Format.json else Format.yaml)


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
    wanted = read_wanted(value, name, int(time.time() * 1000))
    steps = _planned(at, wanted, prune)
    if at.is_for_people:
        typer.echo("\n".join(_told(steps)))
    doomed = [step for step in steps if step.action == "delete"]
    if not dry_run:
        if doomed:
            at.agree(f"Delete {len(doomed)} of them?", "changed", yes)
        _do_all(at, steps)
    if at.is_for_people:
        counts = ", ".join(f"{count} {word}" for word, count in summary(steps).items())
        typer.echo(f"{'would be: ' if dry_run else ''}{counts}")
        return
    rows = [step._asdict() | {"changes": _shown(step)} for step in steps]
    shown = [{name: row[name] for name in ("action", "kind", "name", "id", "changes")} for row in rows]
    at.show({"set": wanted.set_name, "dry_run": dry_run, **summary(steps), "steps": shown})


def _planned(at: Terminal, wanted: Wanted, prune: bool) -> list[Step]:
    owned = [
        thing | {"apply_kind": kind}
        for kind in PLURALS
        for thing in at.api.pages(f"/{PLURALS[kind]}", tag=wanted.tag)
        if thing["state"] != "deleted"
    ]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in wanted.entries:
        thing = _found(at, entry, owned)
        if thing is not None:
            found[entry.kind, entry.name] = thing
    return plan(wanted, found, owned, prune)


def _found(at: Terminal, entry: Entry, owned: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What an entry means: by its id, among what the set owns, among all."""
    path = f"/{PLURALS[entry.kind]}"
    if entry.id is not None:
        thing: dict[str, Any] = at.api.get(path + "/{}", entry.id)
        return thing
    ours = [one for one in owned if (one["apply_kind"], one["name"]) == (entry.kind, entry.name)]
    same = ours or [one for one in at.api.pages(path, q=entry.name) if one["name"] == entry.name]
    same = [one for one in same if one["state"] != "deleted"]
    if len(same) > 1:
        ids = ", ".join(one["id"] for one in same[:3])
        raise ConflictError(
            f"name: {len(same)} {PLURALS[entry.kind]} are named {entry.name!r} ({ids}); say which by `id:`",
            field="name",
        )
    if not same:
        return None
    full: dict[str, Any] = at.api.get(path + "/{}", same[0]["id"])
    return full


def _do_all(at: Terminal, steps: list[Step]) -> None:
    """One by one: what was done stays done if it is cut off, and the same line again does the rest."""
    under_way = [step for step in steps if step.action != "same"]
    for number, step in enumerate(under_way, 1):
        path = f"/{PLURALS[step.kind]}"
        if step.action == "create":
            at.api.make(path, body=dict(step.body))
        elif step.action == "change":
            at.api.patch(path + "/{}", str(step.id), body=dict(step.body))
        else:
            at.api.delete(path + "/{}", str(step.id))
        if number % 50 == 0:
            sys.stderr.write(f"{number} of {len(under_way)}\n")


def _told(steps: list[Step]) -> Iterator[str]:
    for step in steps:
        if step.action == "same":
            continue
        yield f"{MARKS[step.action]} {step.kind} {step.name}" + (f" ({step.id})" if step.id else "")
        yield from (f"    {field}: {_text(old)} → {_text(new)}" for field, (old, new) in step.changes.items())


def _text(value: Any) -> str:
    text = " ".join(yaml.safe_dump(value, default_flow_style=True, allow_unicode=True).split())
    text = text.removesuffix(" ...")
    return text if len(text) <= 200 else f"{text[:199]}…"


def _shown(step: Step) -> dict[str, dict[str, Any]]:
    return {field: {"from": old, "to": new} for field, (old, new) in step.changes.items()}


def _things(at: Terminal, kind: Kind, **words: str | None) -> Iterator[dict[str, Any]]:
    for thing in at.api.pages(f"/{PLURALS[kind]}", **words):
        if thing["state"] in ("completed", "deleted") or (kind == "job" and thing.get("run_at")):
            continue
        yield thing if kind == "job" else at.api.get("/dags/{}", thing["id"])
