"""What `manage.py dumpdata django_celery_beat` prints: periodic tasks, which name schedules by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shardwheel.errors import UsageError
from shardwheel.importing.celery_beat import cron_of, job_of
from shardwheel.importing.imported import Entries, Imported, every_of
from shardwheel.importing.python_source import UnreadableError

_APP = "django_celery_beat."
_PERIOD_S = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0, "microseconds": 1e-6}
_KINDS = ("interval", "crontab", "solar", "clocked")


def read_celery_dump(items: list[Any], time_zone: str | None, now_ms: int) -> list[Imported]:
    entries, rows = Entries(now_ms), dict[tuple[str, Any], Mapping[str, Any]]()
    for item in items:
        if not isinstance(item, dict) or not {"model", "fields"} <= item.keys():
            raise UsageError("file: is no dump of django_celery_beat; make it with dumpdata", field="file")
        if not isinstance(item["fields"], dict) or isinstance(item.get("pk"), list | dict):
            raise UsageError("file: a row of the dump has no fields or no key; make it anew", field="file")
        rows[str(item["model"]).removeprefix(_APP), item.get("pk")] = item["fields"]
    for (model, _), fields in rows.items():
        if model == "periodictask" and fields.get("task") != "celery.backend_cleanup":
            _take(entries, rows, fields, time_zone)
    return entries.items


def _take(
    entries: Entries,
    rows: Mapping[tuple[str, Any], Mapping[str, Any]],
    fields: Mapping[str, Any],
    time_zone: str | None,
) -> None:
    where = f"periodic task {fields.get('name')!r}"
    if not fields.get("enabled", True):
        entries.refuse(where, "is disabled; enable it there first, or create it here by hand")
        return
    try:
        entries.take(where, *_job(rows, fields, time_zone))
    except UsageError as error:
        entries.refuse(where, str(error))
    except (KeyError, TypeError, AttributeError) as error:
        entries.refuse(where, f"can't be read: {error}; dump the app as it is")


def _job(
    rows: Mapping[tuple[str, Any], Mapping[str, Any]], fields: Mapping[str, Any], time_zone: str | None
) -> tuple[dict[str, Any], list[str]]:
    kind = next((kind for kind in _KINDS if fields.get(kind) is not None), None)
    row = rows.get((f"{kind}schedule", fields.get(kind or "")))
    if kind is None or row is None:
        raise UnreadableError("its schedule is not in the dump; dump the whole app django_celery_beat")
    sent = {"args": _json(fields, "args", []), "kwargs": _json(fields, "kwargs", {})}
    sent["options"] = {key: fields.get(key) for key in ("queue", "priority")}
    sent["options"]["expires"] = fields.get("expire_seconds")
    # Its own schedule takes the place of this interval below.
    job, notes = job_of(str(fields["name"]), {"task": fields["task"], "schedule": 60, **sent}, "UTC")
    del job["every"]
    job |= _times(kind, row, time_zone)
    if fields.get("one_off") and kind != "clocked":
        job["max_runs"] = 1
    if fields.get("start_time") and kind != "clocked":
        job["start_at"] = fields["start_time"]
    if fields.get("expires") and kind != "clocked":
        job["end_at"] = fields["expires"]
    return job, notes


def _times(kind: str, row: Mapping[str, Any], time_zone: str | None) -> dict[str, Any]:
    if kind == "interval":
        return {"every": every_of(row["every"] * _PERIOD_S[row["period"]])}
    if kind == "crontab":
        cron = cron_of({name: value for name, value in row.items() if name != "timezone"})
        return {"cron": cron, "time_zone": str(row.get("timezone") or time_zone or "UTC")}
    if kind == "clocked":
        return {"run_at": row["clocked_time"]}
    raise UnreadableError(f"solar: {row.get('event')} depends on the sun; choose times of the clock")


def _json(fields: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """django-celery-beat keeps these as a text of JSON."""
    value = fields.get(name)
    if not isinstance(value, str):
        return otherwise if value is None else value
    try:
        return msgspec.json.decode(value or msgspec.json.encode(otherwise))
    except msgspec.DecodeError as error:
        raise UnreadableError(f"{name}: {value!r:.40} is not JSON ({error})") from error
