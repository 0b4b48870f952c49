"""What a DAG is, and how one is posted: a job's schedule and policies, and tasks with edges between them.

Checked whole, before anything is stored: every refusal is a `UsageError` that names the task, the field, the
problem and the remedy. What a task shares with a job (params, limits, backoff) is checked by the job's own
rules. Never recurses: ten thousand tasks in one chain are refused for their depth, not by Python's stack.

    {"name": "etl", "cron": "0 2 * * *", "policy": "continue", "tasks": [
        {"key": "extract", "task": "etl.extract"},
        {"key": "load",    "task": "etl.load", "depends_on": ["extract"]}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from shardwheel.errors import TooLargeError, UsageError
from shardwheel.graph import CycleError, Shape, shape_of
from shardwheel.jsonb import bytes_when_read
from shardwheel.misfits import meant
from shardwheel.posting import TIMING_FIELDS, JobPosting, parse_posting
from shardwheel.times import parse_duration, refuse
from shardwheel.timing import PostedTiming, parse_schedule

MOST_TASKS: Final = 10_000
MOST_EDGES: Final = 100_000
GREATEST_DEPTH: Final = 1_000
DEFINITION_LIMIT_BYTES: Final = 16 * 1024 * 1024
LONGEST_KEY: Final = 100
LONGEST_SPELLED_CYCLE: Final = 20
POLICIES: Final = ("fail_fast", "continue", "retry")

KINDS: Final = frozenset({"cron", "every", "run_at"})
DAG_TIMING_FIELDS: Final = TIMING_FIELDS - {"parents", "delay"}
# What a DAG says as a job does: of its fires, and of the rounds of policy retry.
OF_DAG: Final = DAG_TIMING_FIELDS | {
    *("name", "tags", "priority", "pool", "max_retries", "backoff"),
    *("misfire", "misfire_grace_s", "catchup_window", "overlap", "not_after_s"),
}
# What a task says as a job does. Whatever else a job has is its DAG's to say.
EXECUTION_FIELDS: Final = frozenset(
    {"task", "params", "pool", "priority", "timeout_s", "max_retries", "backoff", "not_after_s"}
)
OF_TASK: Final = EXECUTION_FIELDS | {"key", "depends_on", "fan_out"}
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


class DagTask(NamedTuple):
    """One task as posted. `job` holds what it has of a job; a fan-out runs once per item of its parent's
    output."""

    key: str
    job: JobPosting
    depends_on: tuple[str, ...]
    fan_out: bool

    def columns(self) -> dict[str, Any]:
        """Its columns of `jobs`. Keys are for people too: a task without a name of its own is called so."""
        return self.job.columns() | {"name": self.key, "task_key": self.key}


class DagPosting(NamedTuple):
    """A DAG as posted and checked. `definition` is the post itself, as JSON has it."""

    job: JobPosting
    policy: str
    sla_ms: int | None
    tasks: tuple[DagTask, ...]
    shape: Shape
    definition: dict[str, Any]

    def columns(self) -> dict[str, Any]:
        """The DAG's own columns of `jobs`, apart from the timing. It has no handler, so no task."""
        return self.job.columns() | {"task": ""}

    def timing(self, now_ms: int) -> PostedTiming:
        """Without a schedule it has no times, as a job with parents has none: only a trigger runs it."""
        fields = {name: getattr(self.job, name) for name in DAG_TIMING_FIELDS}
        unscheduled = not KINDS & set(self.definition)
        return parse_schedule(now_ms=now_ms, parents=unscheduled, **fields)


def parse_dag(body: Mapping[str, Any]) -> DagPosting:
    """Check a DAG as posted, or merged with an edit."""
    definition = _definition(body)
    _refuse_unknown(definition, OF_DAG | {"policy", "sla_s", "tasks"}, "")
    policy = definition.get("policy", POLICIES[0])
    if policy not in POLICIES:
        refuse("policy", f"{policy!r:.64} is unknown", f"choose one of {', '.join(POLICIES)}")
    sla_s = definition.get("sla_s")
    tasks = _tasks(definition.get("tasks"))
    return DagPosting(
        job=parse_posting({"task": "dag"} | {name: definition[name] for name in OF_DAG & set(definition)}),
        policy=policy,
        sla_ms=None if sla_s is None else parse_duration(sla_s, "sla_s", least_ms=1),
        tasks=tasks,
        shape=_shape(tasks),
        definition=definition,
    )


def merged(definition: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A DAG's definition with an edit on top. `null` takes a field away, `tasks` replaces all of them, and a
    new kind of schedule takes the place of the old one."""
    kept = dict(definition)
    if KINDS & set(changes):
        for name in (*KINDS, "start_at"):
            kept.pop(name, None)
    return {name: value for name, value in (kept | dict(changes)).items() if value is not None}


def says_the_same(task: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two posted tasks would run alike. Where they stand in their DAGs is not asked."""
    return all(task.get(name) == other.get(name) for name in EXECUTION_FIELDS)


def _definition(body: Mapping[str, Any]) -> dict[str, Any]:
    """The post as plain JSON values, without what it leaves to the defaults."""
    try:
        encoded = msgspec.json.encode({name: value for name, value in body.items() if value is not None})
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"body: can't be written as JSON: {error}", field="body") from error
    definition: dict[str, Any] = msgspec.json.decode(encoded)
    size = bytes_when_read(definition, encoded)
    if size > DEFINITION_LIMIT_BYTES:
        remedy = f"give at most {DEFINITION_LIMIT_BYTES}; pass larger params by reference"
        raise TooLargeError(f"body: has {size} bytes with its numbers written out; {remedy}", field="body")
    return definition


# --- Tasks --------------------------------------------------------------------------------------------


def _tasks(posted: object) -> tuple[DagTask, ...]:
    if not isinstance(posted, list):
        refuse("tasks", "is missing or not a list", 'write [{"key": "extract", "task": "etl.extract"}, …]')
    if not 1 <= len(posted) <= MOST_TASKS:
        refuse("tasks", f"has {len(posted)} tasks", f"give 1 to {MOST_TASKS}")
    tasks = tuple(_task(body, place) for place, body in enumerate(posted))
    _check_keys(tasks)
    _check_parents(tasks)
    _check_fan_outs(tasks)
    return tasks


def _task(body: object, place: int) -> DagTask:
    if not isinstance(body, dict):
        refuse(f"tasks[{place}]", "is not an object", 'write {"key": "extract", "task": "etl.extract"}')
    key, where = _key(body.get("key"), place), f"tasks[{place}]."
    for name in sorted(TIMING_FIELDS & set(body)):
        problem = (
            f"task {key!r} can't have a schedule: it runs when its parents are over, once a run of its DAG"
        )
        refuse(where + name, problem, "give the DAG the schedule, or name parents in depends_on")
    _refuse_unknown(body, OF_TASK, where)
    fan_out = body.get("fan_out", False)
    if not isinstance(fan_out, bool):
        refuse(where + "fan_out", "is not true or false", "write true or false")
    try:
        job = parse_posting({name: body[name] for name in EXECUTION_FIELDS & set(body)})
    except UsageError as error:
        raise type(error)(f"{where}{error} (task {key!r})", field=f"{where}{error.field}") from error
    return DagTask(key, job, _depends_on(body.get("depends_on", []), where), fan_out)


def _key(value: object, place: int) -> str:
    remedy = f"give 1 to {LONGEST_KEY} letters, digits, '_', '-' or '.'"
    if not isinstance(value, str) or not is_key(value):
        refuse(f"tasks[{place}].key", f"{value!r:.64} is not a key", remedy)
    return value


def _depends_on(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        refuse(where + "depends_on", "is not a list of keys", 'write a list such as ["extract"]')
    if repeated := _first_repeated(value):
        refuse(where + "depends_on", f"names {repeated!r} twice", "name it once")
    return tuple(value)


def _first_repeated(keys: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _check_keys(tasks: Sequence[DagTask]) -> None:
    if repeated := _first_repeated(task.key for task in tasks):
        places = [place for place, task in enumerate(tasks) if task.key == repeated]
        problem = f"{repeated!r} is the key of tasks[{places[0]}] already"
        refuse(f"tasks[{places[1]}].key", problem, "give each task a key of its own")


def _check_parents(tasks: Sequence[DagTask]) -> None:
    keys = {task.key for task in tasks}
    for place, task in enumerate(tasks):
        if unknown := [key for key in task.depends_on if key not in keys]:
            problem = f"task {task.key!r} depends on {unknown[0]!r:.120}, which is no task of this DAG"
            refuse(f"tasks[{place}].depends_on", problem, "name keys of its tasks")


def _check_fan_outs(tasks: Sequence[DagTask]) -> None:
    fan_outs = {task.key for task in tasks if task.fan_out}
    for place, task in enumerate(tasks):
        field = f"tasks[{place}].fan_out"
        if task.fan_out and len(task.depends_on) != 1:
            problem = f"task {task.key!r} has {len(task.depends_on)} parents"
            refuse(field, problem, "give it exactly one: that one's output is the list, an execution an item")
        if task.fan_out and task.depends_on[0] in fan_outs:
            problem = f"the parent of task {task.key!r} is a fan-out itself"
            refuse(field, problem, "put a task between the two that joins the outputs into one list")


# --- Edges --------------------------------------------------------------------------------------------


def _shape(tasks: Sequence[DagTask]) -> Shape:
    return shape_between({task.key: task.depends_on for task in tasks}, "tasks")


def shape_between(depends_on: Mapping[str, Sequence[str]], field: str) -> Shape:
    """The order of tasks, by their keys with their parents'; what is a cycle or too large is refused."""
    keys, edges = list(depends_on), sum(map(len, depends_on.values()))
    places = {key: place for place, key in enumerate(keys)}
    if len(keys) > MOST_TASKS:
        refuse(field, f"there are {len(keys)} tasks", f"give at most {MOST_TASKS}")
    if edges > MOST_EDGES:
        remedy = f"give at most {MOST_EDGES}: between two wide layers, put one task that joins them"
        refuse(field, f"have {edges} edges", remedy)
    try:
        shape = shape_of([[places[key] for key in parents] for parents in depends_on.values()])
    except CycleError as error:
        problem = f"wait for each other in a cycle: {_spelled([keys[place] for place in error.cycle])}"
        raise UsageError(f"{field}: {problem}; take one of these edges away", field=field) from None
    if shape.depth > GREATEST_DEPTH:
        remedy = f"give at most {GREATEST_DEPTH}: split it, or let tasks that need not wait run side by side"
        refuse(field, f"have a chain of {shape.depth}, one after the other", remedy)
    return shape


def is_key(name: str) -> bool:
    return len(name) <= LONGEST_KEY and _KEY.fullmatch(name) is not None


def _spelled(cycle: Sequence[str]) -> str:
    """a → b → a: each runs before the next. Of a long one the beginning and the end."""
    if len(cycle) <= LONGEST_SPELLED_CYCLE:
        return " → ".join([*cycle, cycle[0]])
    shown = [*cycle[:LONGEST_SPELLED_CYCLE], "…", cycle[-1], cycle[0]]
    return f"{' → '.join(shown)} ({len(cycle)} tasks)"


def _refuse_unknown(body: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for name in sorted(set(body) - set(known)):
        remedy = f"{meant(name, known)} see docs/dags.md for what a DAG and its tasks say"
        refuse(where + name, "there is no such field", remedy.lstrip())
