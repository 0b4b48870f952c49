"""What `shardctl job export | apply` do: a cluster's jobs as a file, and a cluster made as a file says."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

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
from shardwheel.commands.verbs import Terminal
from shardwheel.errors import ConflictError
from shardwheel.output import Format, print_thing

PLURALS: dict[Kind, str] = {"job": "jobs", "dag": "dags"}
MARKS = {"create": "+", "change": "~", "delete": "-"}


def print_all(at: Terminal, task: str | None, tag: str | None) -> None:
    """All that a file for apply can hold, as one."""
    things = {kind: [*_things(at, kind, task=task, tag=tag)] for kind in PLURALS}
    for remark in _remarks(things):
        sys.stderr.write(f"{remark}\n")
    found = {
        plural: [exported(kind, thing) for thing in things[kind] if not thing.get("parents")]
        for kind, plural in PLURALS.items()
    }
    print_thing(found, Format.json if at.output is Format.json else Format.yaml)


def _remarks(things: Mapping[Kind, list[dict[str, Any]]]) -> Iterator[str]:
    """What a file can't hold, or apply would refuse."""
    children = sum(bool(job.get("parents")) for job in things["job"])
    if children:
        yield f"left out: {children} jobs that run after others; a DAG in their place could be here"
    for kind, plural in PLURALS.items():
        names = Counter(one["name"] for one in things[kind] if not one.get("parents"))
        unclear = sum(count for name, count in names.items() if count > 1 or not name)
        if unclear:
            remedy = "apply tells them apart by it, so give each its own"
            yield f"{unclear} {plural} have no name, or that of another: {remedy}"


def make_so(at: Terminal, value: Any, name: str, *, dry_run: bool, prune: bool, yes: bool) -> None:
    """Show what differs from what a file says; then do it, unless it is only to be shown."""
    wanted = read_wanted(value, name, int(time.time() * 1000))
    steps = _planned(at, wanted, prune)
    if at.is_for_people:
        for line in _told(steps):
            typer.echo(line)
    doomed = [step for step in steps if step.action == "delete"]
    if not dry_run:
        if doomed:
            # People have read it above; a script's answer says it too late.
            told = "" if at.is_for_people else "\n".join([*_told(doomed), ""])
            at.agree(f"{told}Delete {len(doomed)} of them?", "changed", yes)
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
