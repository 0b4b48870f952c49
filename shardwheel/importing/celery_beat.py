"""A Celery beat schedule: a Python file, read and never run, or django-celery-beat's dump as JSON.

Read are `beat_schedule` (and `CELERY_BEAT_SCHEDULE`), entries added to it one by one, and
`add_periodic_task(…)`; schedules as numbers of seconds, `timedelta`, `schedule` and `crontab`. What beat
sends becomes params: the keyword arguments themselves, or `{"args": …, "kwargs": …}` if there are others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from shardwheel.errors import UsageError
from shardwheel.importing.imported import Entries, Imported, every_of
from shardwheel.importing.python_source import Call, Source, UnreadableError, spelled, written_out

_SCHEDULES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE")
_WORD = re.compile("[A-Za-z]+")
_CRONTAB = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_KNOWN = ("task", "schedule", "args", "kwargs", "options", "relative", "enabled")
_NOT_HERE = {
    "queue": "pools are chosen by `pool`: short, medium or long",
    "routing_key": "pools are chosen by `pool`",
    "exchange": "pools are chosen by `pool`",
    "priority": "give `priority`: critical, high, normal or low",
}


def read_celery_beat(text: str, name: str, time_zone: str | None, now_ms: int) -> list[Imported]:
    source, entries = Source(text, name), Entries(now_ms)
    zone = _zone_of(source) or time_zone or "UTC"
    for node in source.walk():
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _assigned(source, entries, target, node.value, zone)
        elif isinstance(node, ast.Call):
            _called(source, entries, node, zone)
    return entries.items


def _assigned(source: Source, entries: Entries, target: ast.expr, value: ast.expr, zone: str) -> None:
    if _name_of(target) in _SCHEDULES:
        _schedule(source, entries, value, zone)
    elif isinstance(target, ast.Subscript) and _name_of(target.value) in _SCHEDULES:
        _named(source, entries, target.slice, value, zone)


def _called(source: Source, entries: Entries, node: ast.Call, zone: str) -> None:
    called = _name_of(node.func)
    if called == "update":
        for keyword in node.keywords:
            if keyword.arg in _SCHEDULES:
                _schedule(source, entries, keyword.value, zone)
        if isinstance(node.func, ast.Attribute) and _name_of(node.func.value) in _SCHEDULES and node.args:
            _schedule(source, entries, node.args[0], zone)
    elif called == "add_periodic_task":
        _periodic(source, entries, node, zone)


def _schedule(source: Source, entries: Entries, value: ast.expr, zone: str) -> None:
    """Entry by entry: one that can't be read must not hide the others."""
    if not isinstance(value, ast.Dict):
        entries.refuse(f"line {value.lineno}", f"{spelled(value)} is no dict that is written out")
        return
    for key, entry in zip(value.keys, value.values, strict=True):
        if key is None:
            entries.refuse(f"line {entry.lineno}", f"**{spelled(entry)} would have to be run to be known")
        else:
            _named(source, entries, key, entry, zone)


def _named(source: Source, entries: Entries, key: ast.expr, entry: ast.expr, zone: str) -> None:
    where = f"line {key.lineno}: {spelled(key)}"
    try:
        name, fields = str(source.value(key)), source.value(entry)
        if not isinstance(fields, dict) or "task" not in fields or "schedule" not in fields:
            raise UnreadableError("has no task or no schedule that is written out")
        entries.take(where, *job_of(name, fields, zone))
    except UsageError as error:
        entries.refuse(where, str(error))


def _periodic(source: Source, entries: Entries, node: ast.Call, zone: str) -> None:
    """`app.add_periodic_task(10.0, work.s("a"), name="…", expires=10)`: the signature names its task."""
    where = f"line {node.lineno}: add_periodic_task"
    try:
        call = source.call(node)
        signature = call.args[1] if len(call.args) > 1 else call.kwargs.get("sig")
        schedule = call.args[0] if call.args else call.kwargs.get("schedule")
        if not isinstance(signature, Call) or signature.name not in ("s", "si", "signature"):
            raise UnreadableError("its task is not written as task.s(…)")
        if len(call.args) > 2 or call.kwargs.keys() & {"args", "kwargs"}:
            raise UnreadableError("args and kwargs are given beside its signature; write them as task.s(…)")
        fields = {"task": signature.path.rpartition(".")[0], "schedule": schedule}
        fields |= {"args": list(signature.args), "kwargs": signature.kwargs}
        named = ("schedule", "sig", "name")
        fields["options"] = {key: value for key, value in call.kwargs.items() if key not in named}
        job, notes = job_of(str(call.kwargs.get("name") or fields["task"]), fields, zone)
        entries.take(where, job, [*notes, f"its task is named as in the file: {fields['task']}"])
    except UsageError as error:
        entries.refuse(where, str(error))


def job_of(name: str, fields: Mapping[str, Any], zone: str) -> tuple[dict[str, Any], list[str]]:
    """An entry of a beat schedule as a job."""
    if fields.get("enabled") is False:
        raise UnreadableError("is disabled; enable it there first, or create it here by hand")
    times, notes = times_of(fields["schedule"], zone)
    job = {"task": fields["task"], "name": name, "params": params_of(fields), **times}
    options = fields.get("options") or {}
    if not isinstance(options, dict):
        raise UnreadableError("options are not written out")
    if (expires := options.get("expires")) is not None:
        job["not_after_s"] = _seconds(expires, "expires")
    notes += [f"{key}={options[key]}: {why}" for key, why in _NOT_HERE.items() if options.get(key)]
    others = {key: value for key, value in options.items() if key not in ("expires", *_NOT_HERE)}
    others |= {key: value for key, value in fields.items() if key not in _KNOWN}
    notes += [f"{key}={value}: has no counterpart here" for key, value in others.items() if value is not None]
    if fields.get("relative"):
        notes.append("relative: an interval counts from the job's creation here")
    return job, notes


def params_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    args, kwargs = fields.get("args") or [], fields.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise UnreadableError("args or kwargs are not written out")
    written_out([args, kwargs], "args or kwargs")
    return {"args": args, "kwargs": kwargs} if args else kwargs


def times_of(schedule: Any, zone: str) -> tuple[dict[str, Any], list[str]]:
    if isinstance(schedule, int | float | timedelta) and not isinstance(schedule, bool):
        return {"every": every_of(_seconds(schedule, "schedule"))}, []
    if isinstance(schedule, Call) and schedule.name == "schedule":
        run_every = schedule.args[0] if schedule.args else schedule.kwargs.get("run_every")
        return {"every": every_of(_seconds(run_every, "run_every"))}, []
    if isinstance(schedule, Call) and schedule.name == "crontab":
        fields = dict(zip(_CRONTAB, schedule.args, strict=False)) | schedule.kwargs
        return {"cron": cron_of(fields), "time_zone": zone}, [] if zone != "UTC" else [_UTC]
    what = schedule.path if isinstance(schedule, Call) else repr(schedule)
    raise UnreadableError(f"schedule: {what} is not known here; write a crontab or an interval")


_UTC = "no timezone is set: taken as UTC, as Celery does; else give --time-zone"


def cron_of(fields: Mapping[str, Any]) -> str:
    """Celery wants day of month and day of week to match both; cron takes either."""
    unknown = sorted(set(fields) - set(_CRONTAB) - {"app", "nowfun"})
    if unknown or fields.get("nowfun") is not None:
        raise UnreadableError(f"crontab: {', '.join(unknown) or 'nowfun'} is not known here")
    minute, hour, weekday, day, month = (_cron_field(fields.get(name, "*")) for name in _CRONTAB)
    if day[0] != "*" and weekday[0] != "*":
        raise UnreadableError(
            f"crontab: Celery runs when day_of_month={day} and day_of_week={weekday} match both, cron when "
            "either does; choose one of them, and let the handler look at the other"
        )
    return f"{minute} {hour} {day} {month} {weekday}"


def _cron_field(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_cron_field(one) for one in value)
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise UnreadableError(f"crontab: {value!r:.40} is neither a number nor a text")
    # Celery knows a day and a month by its first three letters; cron by these alone.
    return _WORD.sub(lambda word: word[0][:3], "".join(str(value).split()))


def _seconds(value: Any, field: str) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise UnreadableError(f"{field}: {value!r:.60} is no length of time")
    return float(seconds)


def _zone_of(source: Source) -> str | None:
    """`app.conf.timezone = "Europe/Berlin"`, however it is set."""
    found = None
    for node in source.walk():
        pairs: list[tuple[str | None, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(_name_of(target), node.value) for target in node.targets]
        elif isinstance(node, ast.Call) and _name_of(node.func) == "update":
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
        for name, value in pairs:
            if name in _ZONES and isinstance(value, ast.Constant) and isinstance(value.value, str):
                found = value.value
    return found


def _name_of(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
