"""A crontab, in the form of users (five fields, a command) or of the system (with a user between them).

A command becomes the params of one task type, for which a handler of one's own runs them: nothing here, and
nothing in Shardwheel, runs a shell by itself. As cron has it, a missed time is skipped and a failure is not
tried again.

    CRON_TZ=Europe/Berlin
    0 9 * * 1-5  report --daily%to stdin        → cron, time_zone, params {"command": …, "stdin": …}
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from typing import Any, NamedTuple

from shardwheel.errors import UsageError
from shardwheel.importing.imported import Entries, Imported
from shardwheel.zone import zone_of

_SETTING = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$")
_QUOTED = re.compile(r"(['\"])(.*)\1")
_UNESCAPED_PERCENT = re.compile(r"(?<!\\)%")
_SYSTEM_FILES = ("/etc/crontab", "/etc/cron.d/")
# What cron itself obeys; anything else is for the command, TZ too.
_OWN_SETTINGS = ("CRON_TZ", "MAILTO", "MAILFROM", "RANDOM_DELAY")


class Reading(NamedTuple):
    """`task`: the task type whose handler runs the commands. `time_zone`: of a file that names none."""

    task: str = "shell.run"
    time_zone: str | None = None
    is_system: bool = False


def is_system_file(path: str) -> bool:
    return path.startswith(_SYSTEM_FILES)


def read_crontab(text: str, reading: Reading, now_ms: int) -> list[Imported]:
    entries, settings = Entries(now_ms), dict[str, str]()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        setting = _SETTING.match(line)
        if setting:
            settings[setting[1]] = _unquoted(setting[2])
        else:
            _entry(entries, f"line {number}", stripped, settings, reading)
    return entries.items


def _unquoted(value: str) -> str:
    quoted = _QUOTED.fullmatch(value)
    return quoted[2] if quoted else value


def _entry(entries: Entries, source: str, line: str, settings: dict[str, str], reading: Reading) -> None:
    words = line.removeprefix("-").split(None, 1) if line.startswith(("@", "-@")) else _five(line)
    if len(words) < 2:
        entries.refuse(source, "has no command after its time")
        return
    cron, rest = words[0], words[1]
    user = ""
    if reading.is_system:
        user, rest = (*rest.split(None, 1), "")[:2]
    if not rest.strip():
        entries.refuse(source, "has no command after its time")
        return
    reason = _unknown_to_us(cron)
    if reason is not None:
        entries.refuse(source, reason)
        return
    try:
        entries.take(source, *_job(cron, rest.strip(), user, settings, reading))
    except UsageError as error:
        entries.refuse(source, str(error))


def _five(line: str) -> list[str]:
    """The five fields in one, and what follows. A dash before them only tells cron not to log it."""
    words = line.removeprefix("-").split(None, 5)
    return [" ".join(words[:5]), *words[5:]] if len(words) == 6 else []


def _unknown_to_us(cron: str) -> str | None:
    if cron.lower() == "@reboot":
        return (
            "@reboot: runs when a machine starts, and a cluster has no such moment; start it with the machine"
        )
    if "~" in cron:
        return f"{cron}: a random time of the day; write a fixed one, and --set jitter_s to spread it"
    return None


def _job(
    cron: str, command: str, user: str, settings: dict[str, str], reading: Reading
) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []
    zone = _zone(settings, reading, notes)
    line, _, stdin = _split_percent(command)
    params: dict[str, Any] = {"command": line}
    if stdin:
        params["stdin"] = stdin
    if user:
        params["user"] = user
    env = {name: value for name, value in settings.items() if name not in _OWN_SETTINGS}
    if env:
        params["env"] = env
    if settings.get("MAILTO"):
        notes.append(f"MAILTO={settings['MAILTO']}: nobody is mailed; use callback_url or alerts")
    job = {
        "task": reading.task,
        "name": _name(line),
        "params": params,
        "cron": cron,
        "time_zone": zone,
        "misfire": "skip",
        "max_retries": 0,
    }
    if settings.get("RANDOM_DELAY", "").isdecimal():
        job["jitter_s"] = int(settings["RANDOM_DELAY"]) * 60
    return job, notes + _day_notes(cron)


def _zone(settings: dict[str, str], reading: Reading, notes: list[str]) -> str:
    named = settings.get("CRON_TZ") or reading.time_zone
    if named is None:
        notes.append("no CRON_TZ: taken as UTC; give --time-zone for that of the machine it ran on")
        return "UTC"
    zone_of(named)
    return named


def _split_percent(command: str) -> tuple[str, str, str]:
    """The command, and what it gets on standard input: after the first bare %, where others end lines."""
    head, *lines = _UNESCAPED_PERCENT.split(command)
    return head.rstrip().replace("\\%", "%"), "%", "\n".join(line.replace("\\%", "%") for line in lines)


def _name(command: str) -> str:
    """The command's own name with its first words: enough for people to know it again."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    if not words:
        return command
    return " ".join([PurePath(words[0]).name, *words[1:3]])[:60]


def _day_notes(cron: str) -> list[str]:
    words = cron.split()
    if len(words) == 5 and words[2][0] not in "*?" and words[4][0] not in "*?":
        return ["day of month and day of week: either is enough, as in cron"]
    return []
