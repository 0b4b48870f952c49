"""`shardctl dlq`, `execution` and `audit` on real PostgreSQL: shapes, exit codes, and that they ask first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml
from psycopg.types.json import Json
from typer.testing import CliRunner

from shardwheel.cli import app, exit_code_of
from shardwheel.compose.postgres import PostgresServer
from shardwheel.errors import ShardwheelError
from shardwheel.ids import text_of
from shardwheel.store.letters import list_letters
from shardwheel.wire import Outcome
from tests.integration.commands.conftest import api_environment
from tests.integration.store.gate import NOON_MS, Gate, result_of
from tests.servers import fresh_database

pytestmark = pytest.mark.servers


class Answer(NamedTuple):
    code: int
    text: str

    @property
    def value(self) -> Any:
        return msgspec.json.decode(self.text)


class Commands:
    """The commands of one database, whose jobs are the default tenant's."""

    def __init__(self, dsn: str, environment: dict[str, str]) -> None:
        self._environment = environment
        self._times = itertools.count(NOON_MS + 1_000)
        self.gate = Gate(dsn)
        self.job_id = self.gate.job_id
        with self.gate.conn.transaction():
            self.gate.conn.execute("ALTER TABLE shardwheel.jobs DISABLE TRIGGER jobs_before_change")
            self.gate.conn.execute("UPDATE shardwheel.jobs SET tenant_id = 'default'")
            self.gate.conn.execute("ALTER TABLE shardwheel.jobs ENABLE TRIGGER jobs_before_change")

    def bury(self, count: int, **result: Any) -> str:
        """Let so many executions be given up; the last dead letter's id."""
        for at_ms in itertools.islice(self._times, count):
            (run,) = self.gate.claim(self.gate.fire(at_ms)).claimed
            self.gate.settle(result_of(run, Outcome.FATAL, **result))
        return str(list_letters(self.gate.conn, "default", limit=1).items[0]["id"])

    def __call__(self, *args: str, answer: str | None = None) -> Answer:
        result = CliRunner().invoke(app, args, env=self._environment, input=answer)
        if isinstance(result.exception, ShardwheelError):
            return Answer(exit_code_of(result.exception), str(result.exception))
        return Answer(result.exit_code, result.stdout)


@pytest.fixture
def shardctl(migrated_database: str, with_api: dict[str, str]) -> Iterator[Commands]:
    commands = Commands(migrated_database, with_api)
    yield commands
    commands.gate.close()


@pytest.fixture(scope="module")
def nothing(postgres_server: PostgresServer, migrated_template: str) -> Iterator[Commands]:
    """One for all that is refused: it changes nothing."""
    with fresh_database(postgres_server, migrated_template) as dsn, api_environment(dsn) as environment:
        commands = Commands(dsn, environment)
        yield commands
        commands.gate.close()


def test_letters_are_listed_shown_and_paged(shardctl: Commands) -> None:
    first = shardctl.bury(3, error_class="OSError", traceback="line 1")
    page = shardctl("dlq", "list", "--limit", "2", "-o", "json").value
    assert set(page) == {"items", "next_cursor"} and len(page["items"]) == 2
    rest = shardctl("dlq", "list", "--cursor", page["next_cursor"], "-o", "json").value
    assert len(rest["items"]) == 1 and rest["next_cursor"] is None
    letter = shardctl("dlq", "show", first, "-o", "json").value
    assert (letter["id"], letter["class"], letter["attempts"][0]["traceback"]) == (first, "OSError", "line 1")
    assert yaml.safe_load(shardctl("dlq", "show", first, "-o", "yaml").text) == letter
    assert "OSError" in shardctl("dlq", "list").text
    assert shardctl("dlq", "list", "--filter", "class=KeyError", "-o", "json").value["items"] == []


def test_a_redrive_answers_with_the_same_execution_each_time(shardctl: Commands) -> None:
    letter = shardctl.bury(1)
    made = shardctl("dlq", "redrive", letter, "--params", '{"n": 1}', "-o", "json")
    assert made.code == 0
    assert shardctl("dlq", "redrive", letter, "-o", "json").value == made.value
    shown = shardctl("execution", "get", made.value["execution_id"], "-o", "json").value
    assert (shown["origin"], shown["state"], shown["attempts"]) == ("redrive", "queued", [])
    (entry,) = shardctl("audit", "list", "-o", "json").value["items"]
    assert (entry["action"], entry["object_id"], entry["role"]) == ("dead_letter.redrive", letter, "admin")
    assert entry["actor"] == "ann"
    assert shardctl("dlq", "discard", letter, "--yes").code == 4


def test_by_filter_it_counts_asks_and_goes_through_all_pages(shardctl: Commands) -> None:
    shardctl.bury(250)
    shardctl.bury(5, error_class="KeyError")
    keyed = ("--filter", "class=KeyError")
    assert shardctl("dlq", "discard", *keyed, "--dry-run", "-o", "json").value == {"would_be_discarded": 5}
    assert shardctl("dlq", "discard", *keyed, answer="n\n").code == 4
    assert shardctl("dlq", "discard", *keyed, "--yes", "-o", "json").value == {"discarded": 5, "refused": {}}
    assert shardctl("dlq", "redrive", "--all").code == 4
    assert shardctl("dlq", "redrive", "--all", "--yes", "-o", "json").value == {
        "redriven": 250,
        "refused": {},
    }
    assert shardctl("dlq", "redrive", "--all", "--yes", "-o", "json").value == {"redriven": 0, "refused": {}}
    redriven = shardctl("execution", "list", "--origin", "redrive", "--limit", "200", "-o", "json").value
    assert len(redriven["items"]) == 200 and redriven["next_cursor"]


def test_letters_of_a_deleted_job_are_refused_with_the_reason(shardctl: Commands) -> None:
    letter = shardctl.bury(1)
    shardctl.gate.update(shardctl.job_id, state="deleted")
    refused = shardctl("dlq", "redrive", letter)
    assert refused.code == 4 and "its job is deleted" in refused.text
    assert shardctl("dlq", "redrive", "--all", "--yes", "-o", "json").value["refused"] == {"job_deleted": 1}


def test_an_execution_is_cancelled_on_record_after_asking(shardctl: Commands) -> None:
    (run,) = shardctl.gate.claim(shardctl.gate.fire()).claimed
    execution = text_of(run.execution_id)
    assert shardctl("execution", "cancel", execution).code == 4
    assert shardctl("execution", "cancel", execution, answer="y\n").code == 0
    stopped = shardctl("execution", "cancel", execution, "--yes", "-o", "json").value
    assert stopped == {"id": execution, "outcome": "already_running"}
    shardctl.gate.settle(result_of(run))
    done = shardctl("execution", "cancel", execution, "--yes", "-o", "json").value
    assert done["outcome"] == "already_done"
    ahead = text_of(shardctl.gate.fire(NOON_MS + 1_000).execution_id)
    assert shardctl("execution", "cancel", ahead, "--yes").code == 3
    assert shardctl("execution", "cancel", ahead, "--job", text_of(shardctl.job_id), "--yes").code == 0
    assert shardctl("execution", "get", ahead, "-o", "json").value["state"] == "cancelled"
    entries = shardctl("audit", "list", "--action", "execution.cancel", "-o", "json").value["items"]
    assert [(entry["object_id"], entry["details"]["before"]["state"]) for entry in entries] == [
        (ahead, None),
        (execution, "running"),  # Once: asked again, it changed nothing.
    ]


def test_the_logs_of_an_execution_by_attempt(shardctl: Commands) -> None:
    (run,) = shardctl.gate.claim(shardctl.gate.fire()).claimed
    execution = text_of(run.execution_id)
    assert shardctl("execution", "logs", execution, "-o", "json").value == {"items": [], "next_cursor": None}
    for attempt in (1, 2):
        shardctl.gate.conn.execute(
            """INSERT INTO shardwheel.execution_logs
                      (execution_id, attempt, first_line, tenant_id, partition, count, bytes, lines)
               VALUES (%s, %s, 1, 'default', 7, 1, 9, %s)""",
            [execution, attempt, Json([[NOON_MS, "info", f"try {attempt}"]])],
        )
    lines = shardctl("execution", "logs", execution, "-o", "json").value["items"]
    assert [line["text"] for line in lines] == ["try 1", "try 2"]
    (line,) = shardctl("execution", "logs", execution, "--attempt", "2", "-o", "json").value["items"]
    assert line == {
        "id": "2.1",
        "attempt": 2,
        "number": 1,
        "at": "2026-11-18T12:00:00.000Z",
        "level": "info",
        "text": "try 2",
    }
    assert "try 1" in shardctl("execution", "logs", execution).text


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("dlq", "show", "0" * 32), 3, "no dead letter"),
        (("dlq", "show", "x"), 2, "not a UUID"),
        (("dlq", "redrive"), 2, "say which"),
        (("dlq", "redrive", "--all", "--filter", "task=a"), 2, "say which"),
        (("dlq", "redrive", "0" * 32, "--all"), 2, "one of them"),
        (("dlq", "redrive", "--all", "--params", "{}"), 2, "one letter"),
        (("dlq", "list", "--filter", "taks=a"), 2, "no key 'taks'"),
        (("dlq", "list", "--filter", "task"), 2, "KEY=VALUE"),
        (("dlq", "list", "--filter", "since=today"), 2, "since"),
        (("dlq", "list", "--state", "lost"), 2, "state"),
        (("dlq", "list", "--cursor", "x"), 2, "cursor"),
        (("execution", "list", "--state", "lost"), 2, "state"),
        (("execution", "get", "0" * 32), 3, "no execution"),
        (("execution", "logs", "0" * 32), 3, "no execution"),
        (("audit", "list", "--cursor", "x"), 2, "cursor"),
    ],
)
def test_what_is_wrong_is_named_with_its_exit_code(
    nothing: Commands, args: tuple[str, ...], code: int, words: str
) -> None:
    answer = nothing(*args)
    assert answer.code == code and words in answer.text
