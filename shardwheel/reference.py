"""The reference pages of docs/reference, made from the code: commands, routes, settings, metrics, with their
words.

    python -m shardwheel.reference docs/reference       # what `make docs` does

A test compares the pages with the code, so that neither can move alone. Nothing here has words of its own:
what reads badly there is mended where it is said.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import REGISTRY
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command

from shardwheel.api.app import PREFIX, ROUTES
from shardwheel.api.route import Route
from shardwheel.api.rules import RULES
from shardwheel.cli import app
from shardwheel.commands.late import whole
from shardwheel.setting_words import GROUPS
from shardwheel.settings import RANGES, Settings

Command = TyperCommand | TyperGroup
_DEFAULTS = msgspec.structs.asdict(Settings())
MADE = "<!-- Made by `make docs` from the code: edit that instead. -->"


def pages() -> dict[str, str]:
    """All pages by their file's name."""
    made = {"cli.md": _cli(), "api.md": _api(), "settings.md": _settings(), "metrics.md": _metrics()}
    return {name: f"{MADE}\n" + "\n".join(lines) + "\n" for name, lines in made.items()}


def _cli() -> Iterator[str]:
    yield "# shardctl"
    for path, command in _commands("shardctl", get_command(app)):
        yield f"\n## {path}\n"
        yield from _described(command)
        shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
        if shown:
            yield "| | |\n|---|---|"
            yield from (f"| {_name(one)} | {_cell(_meaning(one))} |" for one in shown)


def _commands(path: str, command: Any) -> Iterator[tuple[str, Command]]:
    """A command and all below it; a noun that does nothing by itself only by its verbs."""
    command = whole(command)
    if not isinstance(command, TyperGroup) or command.invoke_without_command:
        yield path, command
    if isinstance(command, TyperGroup):
        for name in sorted(command.commands):
            yield from _commands(f"{path} {name}", command.commands[name])


def _described(command: Command) -> Iterator[str]:
    """Its help; what is indented there stands as code."""
    for block in re.split(r"\n\s*\n", cleandoc(command.help or "")):
        if block and all(line.startswith("    ") for line in block.splitlines()):
            yield f"```sh\n{cleandoc(block)}\n```\n"
        else:
            yield " ".join(block.split()) + "\n"


def _name(parameter: Any) -> str:
    if isinstance(parameter, TyperArgument):
        return f"`{parameter.name}`"
    return ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))


def _meaning(parameter: Any) -> str:
    members = getattr(parameter.type_descriptor.annotation, "__members__", {})
    choices = [member.value for member in members.values()]
    default = getattr(parameter.default, "value", parameter.default)
    parts = [
        " ".join((parameter.help or "").split()),
        f"One of {', '.join(choices)}." if choices else "",
        f"Default: `{default}`."
        if isinstance(default, str | int | float) and default not in (False, "")
        else "",
    ]
    return " ".join(filter(None, parts))


def _api() -> Iterator[str]:
    yield f"# Routes below `{PREFIX}`\n"
    yield "[api.md](../api.md) says how it is used; `GET /openapi.json` has all schemas."
    for route in sorted(ROUTES, key=lambda route: (route.path, route.method)):
        yield f"\n## {route.method} {route.path}\n"
        yield f"{route.summary}. {route.description}\n"
        yield from _facts(route)


def _facts(route: Route) -> Iterator[str]:
    role = RULES[route.name].role
    yield f"- Who: {'anybody, without a token' if role is None else f'{role.word} or more'}"
    yield from (f"- `?{word.name}=`: {word.what}" for word in route.query)
    if route.body_example:
        yield f"- Body, for example:\n\n```json\n{_json(route.body_example)}\n```\n"
    yield f"- Answer ({route.status}), for example:\n\n```json\n{_json(route.example)}\n```"


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _settings() -> Iterator[str]:
    yield "# Settings\n"
    yield "[settings.md](../settings.md) says where they are written. In the environment each is"
    yield "`SHARDWHEEL_` and its name in capitals: `zone` is `SHARDWHEEL_ZONE`."
    for group, words in GROUPS.items():
        yield f"\n## {group}\n"
        yield "| key | default | what it is |\n|---|---|---|"
        for names, what in words.items():
            keys = names.split()
            shown = ", ".join(f"`{key}`" for key in keys)
            defaults = ", ".join(dict.fromkeys(_default(key) for key in keys))
            yield f"| {shown} | {defaults} | {_cell(what)}{_range(keys)} |"


def _default(key: str) -> str:
    value = _DEFAULTS[key]
    text = ",".join(value) if isinstance(value, tuple) else str(value if value or value == 0 else "")
    return f"`{text}`" if text else ""


def _range(keys: list[str]) -> str:
    least, most = RANGES.get(keys[0], (0, 0)) if len(keys) == 1 else (0, 0)
    return f" ({least:,} to {most:,})" if most else ""


def _metrics() -> Iterator[str]:
    yield "# Metrics\n"
    yield "On every service's `/metrics`, for Prometheus. [alerts.md](../alerts.md) says which are watched.\n"
    yield "| name | kind | labels | what it says |\n|---|---|---|---|"
    for metric in sorted(REGISTRY.collect(), key=lambda metric: metric.name):
        if metric.name.startswith("shardwheel_"):
            name = metric.name + ("_total" if metric.type == "counter" else "")
            yield f"| `{name}` | {metric.type} | {_labels(metric.name)} | {_cell(metric.documentation)} |"


def _labels(name: str) -> str:
    collector = REGISTRY._names_to_collectors[name]
    return ", ".join(f"`{label}`" for label in getattr(collector, "_labelnames", ()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
