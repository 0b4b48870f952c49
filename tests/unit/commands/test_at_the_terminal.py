"""What people see that scripts do not: tables in a narrow terminal, questions, remarks on standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shardwheel.output import agreed
from tests.unit.commands.conftest import Shardctl

ID = "019a9e5c-7e1b-7c3a-8f21-0c9d3b7a5e10"
JOB: dict[str, Any] = {"id": ID, "state": "active", "time_zone": "Europe/Berlin", "name": "n", "task": "t"}

ROOT = Path(__file__).parents[3]
NOTHING: dict[str, Any] = {"items": [], "next_cursor": None}


def times(*at: str) -> dict[str, Any]:
    return {"items": list(at), "fires_at": list(at), "next_cursor": None}


def test_a_day_of_changed_clocks_is_marked_in_80_columns(shardctl: Shardctl) -> None:
    shardctl.api.answers["GET /jobs/{id}"] = JOB
    shardctl.api.answers["GET /jobs/{id}/next"] = times(
        "2026-10-24T00:30:00.000Z", "2026-10-25T00:30:00.000Z"
    )
    lines = shardctl("job", "next", ID, COLUMNS="80").text.splitlines()
    assert lines[0].split() == ["LOCAL", "SCHEDULED", "AT", "CLOCKS"]
    assert "Sun 2026-10-25 02:30:00+02:00" in lines[2] and "clocks go back 60 min" in lines[2]
    assert max(map(len, lines)) <= 80


def test_where_no_times_are_to_come_it_says_why(shardctl: Shardctl) -> None:
    shardctl.api.answers["GET /jobs/{id}"] = JOB | {"state": "paused"}
    shardctl.api.answers["GET /jobs/{id}/next"] = times()
    answer = shardctl("job", "next", ID, "-o", "json")
    assert answer.value == [] and "the job is paused; see: shardctl explain" in answer.errors


@pytest.mark.parametrize("line", ["task pause emial.send", "task limit emial.send --rate 5/s"])
def test_a_task_type_that_no_job_names_is_told_of(shardctl: Shardctl, line: str) -> None:
    assert shardctl(*line.split()).errors == ""
    shardctl.api.answers |= {"GET /jobs": NOTHING, "GET /dags": NOTHING}
    answer = shardctl(*line.split())
    assert answer.code == 0 and "no job names 'emial.send' yet" in answer.errors
    assert {one.query["task"] for one in shardctl.api.asked if one.query} == {"emial.send"}


def test_attempts_are_a_table_and_the_last_traceback_is_readable(shardctl: Shardctl) -> None:
    attempt = {
        "attempt": 1,
        "outcome": "failed",
        "class": "KeyError",
        "traceback": "Traceback:\n  line 1\nKeyError",
    }
    shardctl.api.answers["GET /executions/{id}"] = {"id": ID, "state": "dead", "attempts": [attempt]}
    text = shardctl("execution", "get", ID, COLUMNS="80").text
    assert "Traceback:\n  line 1\nKeyError\n" in text and "\\n" not in text
    assert "ATTEMPT  OUTCOME  CLASS" in text


@pytest.mark.parametrize("number", ["256", "-1", "x"])
def test_a_partition_that_there_can_not_be_is_wrong_usage(shardctl: Shardctl, number: str) -> None:
    assert shardctl("partition", "move", "--to", "a", "--", number).code == 2


def test_a_question_is_asked_beside_the_answer() -> None:
    """Nobody is there to say yes: refused, on a line of its own, and nothing on standard output."""
    code = (
        "from shardwheel.errors import *; from shardwheel.output import agreed; print(agreed('Delete it?'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("False\n", "Delete it? [y/N]: \n")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("update", ID, "--set", "pool=long"), "pool: 'long' is not JSON"),
        (("update", ID, "--set", "pool=long"), "a text is written as '\"long\"'"),
        (("create", "t", "--params", "{to: 1}"), "names and texts stand in double quotes"),
    ],
)
def test_what_is_no_json_says_how_it_is_written(
    shardctl: Shardctl, words: tuple[str, ...], remedy: str
) -> None:
    answer = shardctl("job", *words)
    assert answer.code == 2 and remedy in answer.errors and shardctl.api.asked == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"job delete {ID}", "email.send, active"),
        (f"execution cancel {ID}", "email.send, succeeded, of 2026-11-20T08:00:00.000Z"),
        (f"dag cancel {ID}", "tasks not over"),
        (f"dag delete {ID}", "tasks)"),
        (f"dlq discard {ID}", "email.send, retries_exhausted, of"),
        ("job pause --filter task=email.send", ID),
        ("dlq redrive --filter class=OSError", "email.send  retries_exhausted"),
        ("dlq discard --all", "… and 39 more\nDiscard 40 dead letters?"),
    ],
)
def test_a_question_tells_what_would_be_touched(shardctl: Shardctl, line: str, told: str) -> None:
    for name in ("POST /dead-letters:redrive", "POST /dead-letters:discard"):
        shardctl.api.answers[name] = {"count": 40}
    answer = shardctl(*line.split(), "-o", "json", typed="n\n")
    assert answer.code == 4 and told in answer.errors and answer.text == ""
    changed = [one for one in shardctl.api.asked if not one.route.startswith("GET ")]
    assert all(one.body.get("dry_run") for one in changed)
    if "class=OSError" in line:
        assert shardctl.api.asked[-1].query == {"class": "OSError", "limit": "10"}


def test_a_run_ahead_can_be_cancelled_by_its_job(shardctl: Shardctl) -> None:
    shardctl.api.answers["GET /executions/{id}"] = (404, "no such execution")
    answer = shardctl("execution", "cancel", ID, "--job", ID, typed="y\n")
    assert answer.code == 0 and "(not fired yet)" in answer.errors


def test_a_script_s_prune_tells_what_would_be_deleted(shardctl: Shardctl, tmp_path: Any) -> None:
    (tmp_path / "jobs.yaml").write_text("jobs: []\n")
    doomed = JOB | {"id": ID, "name": "digest", "tags": ["apply:jobs"]}
    shardctl.api.answers["GET /jobs"] = {"items": [doomed], "next_cursor": None}
    shardctl.api.answers["GET /dags"] = {"items": [], "next_cursor": None}
    answer = shardctl("job", "apply", str(tmp_path / "jobs.yaml"), "--prune", "-o", "json", typed="n\n")
    assert answer.code == 4 and f"- job digest ({ID})" in answer.errors and answer.text == ""


def test_a_file_that_is_already_so_says_only_that(shardctl: Shardctl, tmp_path: Any) -> None:
    (tmp_path / "jobs.yaml").write_text("jobs: []\n")
    for name in ("GET /jobs", "GET /dags"):
        shardctl.api.answers[name] = {"items": [], "next_cursor": None}
    answer = shardctl("job", "apply", str(tmp_path / "jobs.yaml"))
    assert answer.text == "0 created, 0 changed, 0 deleted, 0 unchanged\n"


COMPLETED = {
    "shardctl jo": {"job"},
    "shardctl job pa": {"pause"},
    "shardctl dag run sh": {"show"},
    "shardctl job list --sta": {"--state"},
    "shardctl shard dr": {"drain"},
    "shardctl job list -o ": {"table", "json", "yaml"},
    "shardctl bench fail": {"failover"},
}


@pytest.mark.parametrize("line", COMPLETED)
def test_bash_is_told_what_completes_a_line(line: str) -> None:
    """As the script of `--show-completion` asks for it."""
    words = line.split() + [""] * line.endswith(" ")
    asked = {"_SHARDCTL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "import sys; sys.argv[0] = 'shardctl'; from shardwheel.cli import app; app(prog_name='shardctl')"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert set(ran.stdout.split()) == COMPLETED[line], ran


FULL = "shardctl: the answer can't be written (No space left on device)\n"
LISTING = f"{sys.executable} -m shardwheel.cli profile list"


@pytest.mark.parametrize(
    ("line", "code", "shown", "told"),
    [
        (LISTING, 0, "é?", ""),
        (f"{LISTING} -o json", 0, '"é–"', ""),
        (f"{LISTING} -o yaml", 0, "é–", ""),
        (f"{LISTING} >&-", 0, "", ""),
        (
            f"{LISTING} > /dev/full",
            1,
            "",
            FULL,
        ),
        (f"{LISTING} | true", 0, "", ""),
    ],
)
def test_an_answer_that_can_not_be_shown_is_no_traceback(
    tmp_path: Path, line: str, code: int, shown: str, told: str
) -> None:
    (tmp_path / "shardwheel.toml").write_text('[profiles."é–"]\napi_url = "http://s"\n')
    # So much that a pipe does not hold it, whoever is quicker.
    more = "".join(f'[profiles.n{number}]\napi_url = "http://s"\n' for number in range(2_000))
    (tmp_path / "shardwheel.toml").open("a").write(more if "true" in line else "")
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr.decode()) == (code, told)
    assert shown in ran.stdout.decode("utf-8" if "-o" in line else "latin-1")


def test_nobody_there_to_answer_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert not agreed("Delete all of it?")


class Refusing:
    """A connection to a PostgreSQL that refuses every statement."""

    def __init__(self, error: psycopg.Error) -> None:
        self.error = error

    def __enter__(self) -> Refusing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, *_: object, **__: object) -> None:
        raise self.error


@pytest.mark.parametrize("line", ["producer list", "rebase --yes"])
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (psycopg.errors.InsufficientPrivilege("permission denied"), 4, "the role that migrations run as"),
        (psycopg.errors.UndefinedTable("no such table"), 4, "run: shardctl migrate"),
        (psycopg.errors.AdminShutdown("terminating"), 5, "out of reach"),
        (psycopg.ProgrammingError('missing "="'), 2, "postgresql://user@host"),
    ],
)
def test_what_postgresql_refuses_is_no_traceback(
    shardctl: Shardctl,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    error: psycopg.Error,
    code: int,
    words: str,
) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: Refusing(error))
    answer = shardctl(*line.split(), SHARDWHEEL_POSTGRES_DSN="postgresql://here")
    assert answer.code == code and words in answer.errors
