"""What has to change so that a cluster holds what a file says. Pure: rows and entries in, steps out.

An entry means all of a job: a field that it leaves out has its default. It is found by its id, or by its
name, which must be the only one. Whatever an apply makes is tagged `apply:SET`; only that may be pruned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from shardwheel.dag import parse_dag
from shardwheel.errors import ConflictError, UsageError
from shardwheel.expression import canonical_expression
from shardwheel.posting import LONGEST_TAG, JobPosting, parse_posting
from shardwheel.retry import Backoff
from shardwheel.times import parse_duration, parse_time

Kind = Literal["job", "dag"]
Thing = Mapping[str, Any]
KINDS_OF_SCHEDULE = ("cron", "every", "run_at")
PREFIX = "apply:"
_DURATIONS = frozenset({"every", "catchup_window", "jitter_s", "sla_s"})
_TIMES = frozenset({"run_at", "start_at", "end_at"})
_OF_CRON = frozenset({"time_zone", "dst_gap", "dst_fold"})
_OF_REPEATING = frozenset({"exclude", "start_at", "end_at", "max_runs"}) | _OF_CRON
# These say what happens once, when it is made; a file says what is to be.
_ONCE = ("idempotency_key", "delay", "parents")
_TASK_DEFAULTS: dict[str, Any] = {"params": {}, "depends_on": [], "fan_out": False}


def _defaults() -> dict[str, Any]:
    blank = JobPosting(task="")
    found = {name: getattr(blank, name) for name in blank.__struct_fields__ if name not in (*_ONCE, "task")}
    return {name: msgspec.to_builtins(value) for name, value in found.items()}


JOB_DEFAULTS = _defaults()
DAG_DEFAULTS = {name: value for name, value in JOB_DEFAULTS.items() if name not in ("params", "timeout_s")}
DAG_DEFAULTS |= {"policy": "fail_fast", "sla_s": None, "tasks": []}
del DAG_DEFAULTS["callback_url"]
DEFAULTS: dict[str, dict[str, Any]] = {"job": JOB_DEFAULTS | {"task": ""}, "dag": DAG_DEFAULTS}


class Entry(NamedTuple):
    """One job or DAG of a file."""

    kind: Kind
    name: str
    id: str | None
    body: dict[str, Any]


class Step(NamedTuple):
    """`changes`: field → what it is and what it is to be. `body`: what to send."""

    action: Literal["create", "change", "delete", "same"]
    kind: Kind
    name: str
    id: str | None
    changes: Mapping[str, tuple[Any, Any]] = MappingProxyType({})
    body: Mapping[str, Any] = MappingProxyType({})


class Wanted(NamedTuple):
    set_name: str
    entries: list[Entry]

    @property
    def tag(self) -> str:
        return PREFIX + self.set_name


def read_wanted(value: Any, name: str, now_ms: int) -> Wanted:
    """A file's jobs and DAGs, each checked as if it were posted."""
    if not isinstance(value, dict) or not set(value) <= {"set", "jobs", "dags"}:
        problem = f"{name} has other words at its top; write `jobs:` and `dags:`, lists, and `set:`"
        raise UsageError(f"file: {problem}", field="file")
    set_name = str(value.get("set") or name)
    if len(PREFIX + set_name) > LONGEST_TAG:
        raise UsageError(f"set: {set_name!r} is too long; give it a short `set:`", field="set")
    entries = [
        _entry(kind, body, f"{plural}[{number}]", now_ms)
        for kind, plural in (("job", "jobs"), ("dag", "dags"))
        for number, body in enumerate(_list(value.get(plural), plural))
    ]
    twice = [key for key, count in Counter((one.kind, one.name) for one in entries).items() if count > 1]
    if twice:
        raise ConflictError(f"name: {twice[0][1]!r} stands there twice; names tell them apart", field="name")
    return Wanted(set_name, entries)


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError(f"{name}: is not a list; begin each entry with a dash", field=name)
    return value


def _entry(kind: Any, body: Any, where: str, now_ms: int) -> Entry:
    if not isinstance(body, dict):
        raise UsageError(f"{where}: is not an object; write fields such as name, task and cron", field=where)
    fields: dict[str, Any] = msgspec.to_builtins(body)
    some_id, name = fields.pop("id", None), str(fields.get("name") or "")
    if not name:
        raise UsageError(f"{where}: has no name, by which to find it again; give it one", field=where)
    if not isinstance(some_id, str | None):
        raise UsageError(
            f"{where}.id: is not a text; put the job's id in quotes, or leave it out", field="id"
        )
    if "parents" in fields:
        raise UsageError(
            f"{where}.parents: has no place in a file; write a DAG in its place", field="parents"
        )
    for once in _ONCE:
        if once in fields:
            problem = "says what to do once, and a file what is to be; leave it out"
            raise UsageError(f"{where}.{once}: {problem}", field=once)
    try:
        if kind == "job":
            if not any(fields.get(word) for word in KINDS_OF_SCHEDULE):
                raise UsageError("cron: a job without a schedule runs once, now; give cron, every or run_at")
            parse_posting(fields).timing(now_ms)
        else:
            parse_dag(fields)
    except UsageError as error:
        raise UsageError(f"{where} ({name}): {error}", field=error.field) from error
    return Entry(kind, name, some_id, fields)


def plan(
    wanted: Wanted, found: Mapping[tuple[str, str], Thing], owned: Iterable[Thing], prune: bool
) -> list[Step]:
    """`found`: what is there, by kind and name of an entry. `owned`: everything with the set's tag, each with
    its kind as `apply_kind`."""
    steps = [_step(entry, found.get((entry.kind, entry.name)), wanted.tag) for entry in wanted.entries]
    kept = {step.id for step in steps}
    if prune:
        steps += [
            Step("delete", thing["apply_kind"], thing["name"], thing["id"])
            for thing in owned
            if thing["id"] not in kept and wanted.tag in thing["tags"] and thing["state"] != "deleted"
        ]
    return steps


def _step(entry: Entry, thing: Thing | None, tag: str) -> Step:
    if thing is None:
        tags = [*entry.body.get("tags", []), tag]
        return Step("create", entry.kind, entry.name, None, {}, entry.body | {"tags": tags})
    body = dict(entry.body)
    if tag in thing["tags"]:
        body["tags"] = [*body.get("tags", []), tag]
    changes = differing(entry.kind, body, thing)
    if not changes:
        return Step("same", entry.kind, entry.name, thing["id"])
    return Step("change", entry.kind, entry.name, thing["id"], changes, _edit(entry.kind, body, changes))


def differing(kind: Kind, body: Mapping[str, Any], thing: Thing) -> dict[str, tuple[Any, Any]]:
    """Every field whose meaning differs, however it is spelled."""
    changes = {}
    for field, default in DEFAULTS[kind].items():
        if _has_no_say(field, body):
            continue
        old, new = thing.get(field, default), body.get(field, default)
        if _meaning(field, default if old is None else old) != _meaning(
            field, default if new is None else new
        ):
            changes[field] = (old, new)
    return changes


def _has_no_say(field: str, body: Mapping[str, Any]) -> bool:
    """Fields that a kind of schedule does without; and the first time of an interval is its own if none is
    given."""
    if body.get("cron"):
        return False
    if body.get("every"):
        has_zone = bool(body.get("exclude"))
        return (field in _OF_CRON and not (has_zone and field == "time_zone")) or (
            field == "start_at" and body.get("start_at") is None
        )
    return field in _OF_REPEATING


def _edit(kind: Kind, body: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A new kind of schedule takes the old one's place by itself; what belonged to that one says so too, and
    where it begins is said with it."""
    sent = {field: body.get(field, DEFAULTS[kind][field]) for field in changes}
    if any(sent.get(word) is not None for word in KINDS_OF_SCHEDULE):
        if body.get("start_at") is not None:
            sent["start_at"] = body["start_at"]
        sent = {
            name: value for name, value in sent.items() if name not in KINDS_OF_SCHEDULE or value is not None
        }
    return sent


def _meaning(field: str, value: Any) -> Any:
    if value is None:
        return None
    if field in _DURATIONS:
        return parse_duration(value, field)
    if field in _TIMES:
        return parse_time(value, field)
    if field == "cron":
        return canonical_expression(str(value))
    if field == "backoff":
        return msgspec.to_builtins(msgspec.convert(value, Backoff))
    if field in ("tags", "exclude"):
        return sorted(set(map(str, value)))
    if field == "tasks":
        return [_task(task) for task in value]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _task(task: Thing) -> dict[str, Any]:
    """A DAG's task without what is only the reader's, and with what goes without saying left out."""
    said = {name: value for name, value in task.items() if name != "id" and value is not None}
    usual = JOB_DEFAULTS | _TASK_DEFAULTS
    return {
        name: _meaning(name, value)
        for name, value in said.items()
        if name not in usual or _meaning(name, value) != _meaning(name, usual[name])
    }


def exported(kind: Kind, thing: Thing) -> dict[str, Any]:
    """A job or DAG as `apply` reads it: without what goes without saying, and without tags of applies."""
    found: dict[str, Any] = {"name": thing["name"]}
    if kind == "job":
        found["task"] = thing["task"]
    for field, default in DEFAULTS[kind].items():
        value = thing.get(field, default)
        is_usual = value is None or _meaning(field, value) == _meaning(field, default)
        if field in ("name", "task") or is_usual or _has_no_say(field, thing):
            continue
        found[field] = [_plain_task(task) for task in value] if field == "tasks" else value
    if "tags" in found:
        found["tags"] = [tag for tag in found["tags"] if not tag.startswith(PREFIX)]
        if not found["tags"]:
            del found["tags"]
    return found


def _plain_task(task: Thing) -> dict[str, Any]:
    usual = _TASK_DEFAULTS
    return {
        name: value
        for name, value in task.items()
        if name != "id" and (name not in usual or value != usual[name])
    }


def summary(steps: Sequence[Step]) -> dict[str, int]:
    counts = Counter(step.action for step in steps)
    return {word: counts[action] for action, word in _WORDS.items()}


_WORDS: dict[Any, str] = {"create": "created", "change": "changed", "delete": "deleted", "same": "unchanged"}
