"""APScheduler's jobs: a Python file with `add_job` and `scheduled_job`, read and never run.

Its own rules come with them: a run does not start while the former goes on (`max_instances=1`), late ones
become one (`coalesce`), and one that is too late (`misfire_grace_time`) is left out: that is the catch-up
window here. Its usual second is less than a fail-over takes, so what is late by less than our grace runs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from shardwheel.errors import UsageError
from shardwheel.importing.apscheduler_cron import FIELDS, cron_of_fields
from shardwheel.importing.imported import Entries, Imported, every_of
from shardwheel.importing.python_source import Call, Source, UnreadableError, spelled, written_out
from shardwheel.posting import JobPosting
from shardwheel.zone import zone_of

UNITS_S = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_TRIGGERS = {"CronTrigger": "cron", "IntervalTrigger": "interval", "DateTrigger": "date"}
_ADD = ("func", "trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce", "max_instances")
_USUAL_GRACE_S = 1
_OUR_GRACE_S = JobPosting(task="").misfire_grace_s
LONGEST_WINDOW = "30d"
_LOCAL = "no timezone is given: taken as UTC; give --time-zone for that of the machine it ran on"


def read_apscheduler(text: str, name: str, time_zone: str | None, now_ms: int) -> list[Imported]:
    source, entries = Source(text, name), Entries(now_ms)
    zone = _zone_of(source) or time_zone
    for node in source.walk():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _last(decorator.func) == "scheduled_job":
                    _take(source, entries, decorator, node.name, zone)
        elif isinstance(node, ast.Call) and _last(node.func) == "add_job":
            _take(source, entries, node, None, zone)
    return entries.items


def _take(source: Source, entries: Entries, node: ast.Call, function: str | None, zone: str | None) -> None:
    where = f"line {node.lineno}: {_last(node.func)}"
    try:
        given = _given(source, node, function)
        entries.take(where, *job_of(given, zone))
    except UsageError as error:
        entries.refuse(where, str(error))


def _given(source: Source, node: ast.Call, function: str | None) -> dict[str, Any]:
    """The arguments by name. A function is known by how it is written, so it is not looked up."""
    names = _ADD if function is None else _ADD[1:]
    pairs = [(name, value) for name, value in zip(names, node.args, strict=False)]
    pairs += [(keyword.arg or "", keyword.value) for keyword in node.keywords]
    given: dict[str, Any] = {"func": function}
    for name, value in pairs:
        if not name or isinstance(value, ast.Starred):
            raise UnreadableError(f"{spelled(node)} unpacks arguments; write them out")
        is_text = isinstance(value, ast.Constant)
        given[name] = spelled(value) if name == "func" and not is_text else source.value(value)
    return given


def job_of(given: Mapping[str, Any], zone: str | None) -> tuple[dict[str, Any], list[str]]:
    """A job by the arguments of `add_job`."""
    if not given.get("func"):
        raise UnreadableError("its function is not named")
    trigger, fields = _trigger(given)
    notes: list[str] = []
    times = times_of(trigger, fields, zone, notes)
    if given.get("next_run_time", False) is None:
        raise UnreadableError("is added paused (next_run_time=None); create it here by hand, and pause it")
    if "next_run_time" in given:
        notes.append("next_run_time: it runs when its schedule says; for a run at once: shardctl job trigger")
    job = {"task": str(given["func"]).replace(":", "."), "params": _params(given), **times}
    job["name"] = given.get("id") or given.get("name") or job["task"]
    return job | policies_of(given, notes), notes


def policies_of(given: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """What APScheduler does by itself, said in our words."""
    running = given.get("max_instances", 1)
    if running != 1:
        notes.append(f"max_instances={running}: any number of runs may overlap here; limit the task type")
    grace_s = given.get("misfire_grace_time", _USUAL_GRACE_S)
    if grace_s is None:
        notes.append(f"misfire_grace_time=None: a run that was missed is caught up for {LONGEST_WINDOW}")
    job = {
        "overlap": "skip" if running == 1 else "allow",
        "misfire": "fire_last" if given.get("coalesce", True) else "fire_all",
        "catchup_window": LONGEST_WINDOW if grace_s is None else f"{_number(grace_s, 'misfire_grace_time')}s",
        "max_retries": 0,
    }
    if grace_s is not None and _USUAL_GRACE_S < grace_s < _OUR_GRACE_S:
        job["misfire_grace_s"] = grace_s
    return job


def _trigger(given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    trigger = given.get("trigger")
    more = {name: value for name, value in given.items() if name not in _ADD}
    for name in ("jobstore", "executor", "replace_existing", "next_run_time"):
        more.pop(name, None)
    if trigger is None:
        return "date", more
    if isinstance(trigger, str):
        return trigger, more
    if isinstance(trigger, Call) and trigger.name == "from_crontab":
        words = str(trigger.args[0] if trigger.args else trigger.kwargs.get("expr", "")).split()
        if len(words) != 5:
            raise UnreadableError("from_crontab: is no expression of five fields")
        fields = dict(zip(("minute", "hour", "day", "month", "day_of_week"), words, strict=True))
        return "cron", fields | {name: trigger.kwargs[name] for name in trigger.kwargs if name == "timezone"}
    if isinstance(trigger, Call) and trigger.name in _TRIGGERS:
        kind = _TRIGGERS[trigger.name]
        names = {"cron": FIELDS, "interval": tuple(UNITS_S), "date": ("run_date", "timezone")}[kind]
        return kind, dict(zip(names, trigger.args, strict=False)) | trigger.kwargs
    what = trigger.path if isinstance(trigger, Call) else repr(trigger)
    raise UnreadableError(f"trigger: {what} has no counterpart; make it a cron, an interval or a date")


def times_of(trigger: str, given: Mapping[str, Any], zone: str | None, notes: list[str]) -> dict[str, Any]:
    """The fields of a schedule. `notes` gets what people should look at."""
    fields = dict(given)
    named = zone_text(fields.pop("timezone", None)) or zone
    bounds = {
        "start_at": _time(fields.pop("start_date", None), named, "start_date"),
        "end_at": _time(fields.pop("end_date", None), named, "end_date"),
        "jitter_s": fields.pop("jitter", None),
    }
    if trigger == "date":
        run_date = fields.get("run_date")
        return {} if run_date is None else {"run_at": _time(run_date, named, "run_date")}
    if trigger == "interval":
        _refuse_unknown(fields, UNITS_S)
        seconds = sum(_number(value, unit) * UNITS_S[unit] for unit, value in fields.items())
        return {"every": every_of(seconds), **bounds}
    if trigger != "cron":
        raise UnreadableError(f"trigger: {trigger} has no counterpart; make it a cron, an interval or a date")
    _refuse_unknown(fields, FIELDS)
    if named is None:
        notes.append(_LOCAL)
    return {"cron": cron_of_fields(fields), "time_zone": named or "UTC", **bounds}


def _number(value: Any, unit: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableError(f"{unit}: {value!r:.60} is no number that is written out")
    return value


def _refuse_unknown(fields: Mapping[str, Any], known: Any) -> None:
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise UnreadableError(f"{', '.join(unknown)}: is not known here")


def _params(given: Mapping[str, Any]) -> dict[str, Any]:
    args, kwargs = given.get("args") or [], given.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise UnreadableError("args or kwargs are not written out")
    written_out([args, kwargs], "args or kwargs")
    return {"args": args, "kwargs": kwargs} if args else kwargs


def zone_text(value: Any) -> str | None:
    """`"Europe/Berlin"`, `ZoneInfo("Europe/Berlin")`, `pytz.timezone("Europe/Berlin")`, `utc`."""
    if isinstance(value, Call) and value.args and isinstance(value.args[0], str):
        return value.args[0]
    if value is None:
        return None
    if isinstance(value, str):
        return value
    raise UnreadableError(f"timezone: {value!r:.60} is not written out")


def _time(value: Any, zone: str | None, field: str) -> str | None:
    """A time of the clock there, with its zone's offset, as a job has it."""
    if value is None:
        return None
    if isinstance(value, Call) and value.name in ("datetime", "date"):
        zoned = value.kwargs.get("tzinfo")
        zone = zone_text(zoned) or zone
        try:
            value = datetime(*value.args, **{k: v for k, v in value.kwargs.items() if k != "tzinfo"})
        except (TypeError, ValueError, OverflowError) as error:
            raise UnreadableError(f"{field}: {error}") from error
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise UnreadableError(f"{field}: {value!r:.40} is no time in ISO 8601") from error
    if not isinstance(value, datetime) or isinstance(value, timedelta):
        raise UnreadableError(f"{field}: {value!r:.60} is no time that is written out")
    if value.tzinfo is None:
        zone_of(zone or "UTC")
        value = value.replace(tzinfo=ZoneInfo(zone or "UTC"))
    return str(value.isoformat())


def _zone_of(source: Source) -> str | None:
    """`BackgroundScheduler(timezone="Europe/Berlin")`."""
    for node in source.walk():
        if isinstance(node, ast.Call) and (_last(node.func) or "").endswith("Scheduler"):
            for keyword in node.keywords:
                if keyword.arg == "timezone":
                    try:
                        return zone_text(source.value(keyword.value))
                    except UnreadableError:
                        return "UTC" if spelled(keyword.value).lower().endswith("utc") else None
    return None


def _last(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
