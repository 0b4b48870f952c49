"""`shardctl` in this process, on the stub of an API."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from shardwheel.cli import app, exit_code_of
from shardwheel.errors import ShardwheelError
from tests.unit.commands.stub import Stub, stub_api

COMMAND = functools.cache(get_command)


class Answer(NamedTuple):
    code: int
    text: str
    errors: str

    @property
    def value(self) -> Any:
        return msgspec.json.decode(self.text)


class Shardctl:
    def __init__(self, api: Stub) -> None:
        self.api = api
        self.environment = {"SHARDWHEEL_API_URL": api.url, "SHARDWHEEL_TOKEN": "t", "SHARDWHEEL_DATA": ""}

    def __call__(self, *words: str, typed: str | None = None, **environment: str) -> Answer:
        result = CliRunner().invoke(app, list(words), env=self.environment | environment, input=typed)
        if isinstance(result.exception, ShardwheelError):
            return Answer(exit_code_of(result.exception), result.stdout, f"{result.stderr}{result.exception}")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def served() -> Iterator[Stub]:
    with stub_api() as stub:
        yield stub


@pytest.fixture
def shardctl(served: Stub, monkeypatch: pytest.MonkeyPatch) -> Shardctl:
    # Typer's runner builds all commands anew for each line, which takes longer than the line.
    monkeypatch.setattr("typer.testing._get_command", COMMAND)
    served.asked.clear()
    served.answers.clear()
    return Shardctl(served)
