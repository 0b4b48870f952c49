"""What `shardctl` loads for whom, and that what it says of its commands is what they say themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from shardwheel.cli import COMMANDS, app
from shardwheel.commands.late import Later

DRIVERS = {"httpx", "psycopg", "confluent_kafka", "trio"}
ROOMS = {
    "shardwheel.shard.shard",
    "shardwheel.workers.worker",
    "shardwheel.results.processor",
    "shardwheel.api.app",
    "shardwheel.alerts.watch",
    "shardwheel.compose.dev",
}
HEAVY = DRIVERS | ROOMS | {"numpy", "litestar", "jwt", "croniter", "yaml", "shardwheel.bench.commands"}


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("--version", set[str]()),
        ("--help", set[str]()),
        ("profile list", {"httpx"}),
        ("job list --help", {"httpx"}),
        ("job apply --help", {"httpx"}),
        ("partition list --help", {"httpx"}),
        ("rebalance --help", {"httpx"}),
        ("shard list --help", {"httpx"}),
        ("alerts list --help", {"httpx"}),
        ("dev status --help", set[str]()),
        ("token create --help", {"jwt"}),
        ("worker --help", DRIVERS | {"shardwheel.workers.worker", "croniter"}),
        ("results --help", DRIVERS | {"shardwheel.results.processor", "croniter"}),
    ],
)
def test_a_line_loads_nothing_that_it_has_no_use_for(line: str, needed: set[str]) -> None:
    assert (
        HEAVY & loaded_by(f"sys.argv[1:] = {line.split()}\nfrom shardwheel.cli import main\nmain()") == needed
    )


def test_a_shard_loads_no_other_service() -> None:
    loaded = loaded_by("import shardwheel.commands.shard_process")
    assert ROOMS & loaded == {"shardwheel.shard.shard"}
    assert not {"litestar", "jwt", "rich", "shardwheel.client"} & loaded - LOADED_BY_HTTPX


def test_the_api_loads_no_other_service() -> None:
    loaded = loaded_by("import shardwheel.commands.api")
    assert ROOMS & loaded == {"shardwheel.api.app"}
    assert "numpy" not in loaded


# `httpx` brings a command line along, which draws with rich.
LOADED_BY_HTTPX = {"rich"}


def loaded_by(code: str) -> set[str]:
    """The modules that a new Python has after this."""
    whole = f"import atexit, sys\natexit.register(lambda: print('LOADED', *sys.modules))\n{code}"
    ran = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    return set(ran.stdout.rpartition("LOADED")[2].split())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_list_says_of_a_command_what_it_says_itself(command: Later) -> None:
    first, *_ = (command.loaded.help or "").split("\n\n")
    assert " ".join(first.split()) == command.help


def every_command() -> Iterator[tuple[str, Any]]:
    def below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not isinstance(command, TyperGroup) or command.invoke_without_command:
            yield path, command
        if isinstance(command, TyperGroup):
            for name, inner in command.commands.items():
                yield from below(f"{path} {name}", inner)

    for command in COMMANDS:
        yield from below(f"shardctl {command.name}", command.loaded)


EVERY = dict(every_command())


@pytest.mark.parametrize("path", EVERY)
def test_a_help_has_an_example_that_begins_with_the_command(path: str) -> None:
    _, _, examples = (EVERY[path].help or "").partition("Example")
    assert path in examples


SERVICES = ("dev", "shard", "worker", "results", "api", "alerts")


@pytest.mark.parametrize("path", EVERY)
def test_every_answer_comes_as_json_and_yaml_too(path: str) -> None:
    """Services run on, logs are lines, and a benchmark has its `--json`."""
    name = path.removeprefix("shardctl ")
    if name not in (*SERVICES, "dev logs") and not name.startswith("bench "):
        assert [one.name for one in EVERY[path].params if "-o" in one.opts] == ["output"]


def test_no_help_loses_a_word() -> None:
    """Words in brackets would be taken for colours, and vanish."""
    texts = [command.help or "" for command in EVERY.values()]
    texts += [one.help or "" for command in EVERY.values() for one in command.params if hasattr(one, "help")]
    assert [text for text in texts if re.search(r"\[[a-z#/@]", text)] == []


@pytest.mark.parametrize("path", EVERY)
def test_a_help_fits_80_columns_and_breaks_only_where_these_end(path: str) -> None:
    shown = CliRunner().invoke(app, [*path.split()[1:], "--help"], env={"COLUMNS": "80"})
    lines = shown.stdout.splitlines()
    assert shown.exit_code == 0 and max(map(len, lines)) <= 80
    for line, following in pairwise(lines):
        if line.strip() and following.strip() and not {line[0], following[0]} & set("╭│╰"):
            first, *_ = following.split()
            assert len(f"{line.rstrip()} {first}") > 78, f"{line.rstrip()} / {following.rstrip()}"
