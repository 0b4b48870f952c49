"""What APScheduler's `scheduler.export_jobs(…)` writes: JSON, in which times and fields are pickles.

The pickles are looked at and never brought to life, see `inert`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from shardwheel.errors import UsageError
from shardwheel.importing.apscheduler_cron import FIELDS
from shardwheel.importing.apscheduler_jobs import job_of
from shardwheel.importing.imported import Entries, Imported
from shardwheel.importing.inert import Inert, looked_at, zone_named
from shardwheel.importing.python_source import Call, UnreadableError

_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "last")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def read_apscheduler_dump(dump: Mapping[str, Any], time_zone: str | None, now_ms: int) -> list[Imported]:
    entries = Entries(now_ms)
    for number, state in enumerate(dump["jobs"]):
        where = f"job {state.get('id', number)}" if isinstance(state, dict) else f"job {number}"
        try:
            if not isinstance(state, dict):
                raise UnreadableError("is no object")
            entries.take(where, *job_of(_given(state), time_zone))
        except (UsageError, KeyError, AttributeError) as error:
            entries.refuse(where, f"can't be read: {error}" if isinstance(error, KeyError) else str(error))
    return entries.items


def _given(state: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with which `add_job` would make it again."""
    if state.get("next_run_time", 0) is None:
        raise UnreadableError("is paused; resume it there first, or create it here by hand")
    plain = {name: _value(state.get(name)) for name in ("func", "id", "args", "kwargs")}
    plain["args"] = list(plain["args"] or [])
    for name in ("misfire_grace_time", "coalesce", "max_instances"):
        plain[name] = state.get(name)
    trigger = state["trigger"]
    if not isinstance(trigger, dict) or "__apscheduler_state__" not in trigger:
        raise UnreadableError("its trigger can't be looked at")
    name = str(trigger["__apscheduler_class__"]).rpartition(":")[2]
    return plain | {"trigger": Call(name, name, (), _fields(name, trigger["__apscheduler_state__"]))}


def _fields(trigger: str, state: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: _moment(_value(state.get(name))) for name in ("start_date", "end_date")}
    found |= {"timezone": zone_named(_value(state.get("timezone"))), "jitter": state.get("jitter")}
    if trigger == "CronTrigger":
        given = (_value(field) for field in state["fields"])
        found |= {name: text for name, text in map(_cron_field, given) if name in FIELDS}
    elif trigger == "IntervalTrigger":
        interval = _value(state["interval"])
        if not isinstance(interval, timedelta):
            raise UnreadableError("its interval can't be looked at")
        found["seconds"] = interval.total_seconds()
    elif trigger == "DateTrigger":
        return {"run_date": _moment(_value(state["run_date"]))}
    return {name: value for name, value in found.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, dict) and "__apscheduler_pickle__" in value:
        return looked_at(value["__apscheduler_pickle__"])
    return value


def _moment(value: Any) -> Any:
    """A time with its zone, as text: `looked_at` gives the two apart."""
    if isinstance(value, tuple):
        moment, zone = value
        named = Call("ZoneInfo", "ZoneInfo", (zone or "UTC",), {})
        parts = (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
        return Call("datetime", "datetime", (*parts, moment.microsecond), {"tzinfo": named})
    if value is None or isinstance(value, datetime):
        return value
    raise UnreadableError("a time can't be looked at")


def _cron_field(field: Any) -> tuple[str, str]:
    if not isinstance(field, Inert):
        raise UnreadableError("a cron field can't be looked at")
    state = _state_of(field)
    return str(state["name"]), ",".join(_expression(one) for one in state["expressions"])


def _expression(expression: Inert) -> str:
    """One expression as APScheduler spells it."""
    kind, state = expression.origin.rpartition(".")[2], _state_of(expression)
    if kind == "LastDayOfMonthExpression":
        return "last"
    if kind == "WeekdayPositionExpression":
        return f"{_ORDINALS[state['option_num']]} {_WEEKDAYS[state['weekday']]}"
    if kind not in ("AllExpression", "RangeExpression", "WeekdayRangeExpression", "MonthRangeExpression"):
        raise UnreadableError(f"a cron field holds an unknown {kind}")
    first, last, step = state.get("first"), state.get("last"), state.get("step")
    if kind == "AllExpression":
        text = "*"
    elif last is None and step:
        raise UnreadableError(f"a step from {first} on has no end; write its range")
    else:
        text = f"{first}" if last in (None, first) else f"{first}-{last}"
    return f"{text}/{step}" if step else text


def _state_of(thing: Inert) -> Mapping[str, Any]:
    """Of slots, a pickle holds a pair: the attributes and the slots."""
    state = thing.state[1] if isinstance(thing.state, tuple) else thing.state
    if not isinstance(state, dict):
        raise UnreadableError("a cron field can't be looked at")
    return state
