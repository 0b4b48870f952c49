"""Where the API is: flags, environment, file and profiles; no token goes where another place points."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from shardwheel.commands.context import NAMES_A_CLUSTER, current_settings
from shardwheel.commands.reach import look_for_api
from shardwheel.commands.said import Said, at_first, hear
from shardwheel.compose.stack import default_folder, make_folder, write_stack
from shardwheel.compose.state import Process
from shardwheel.errors import UsageError
from shardwheel.settings import Settings
from tests.unit.commands.conftest import Shardctl

FILE = """
api_url = "http://file"
token = "of the file"
[profiles.staging]
api_url = "http://staging"
token = "env:STAGING"
[profiles.bare]
cluster = "b"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    for name in ("API_URL", "TOKEN", "PROFILE", "DATA"):
        monkeypatch.delenv(f"SHARDWHEEL_{name}", raising=False)
    at_first()
    monkeypatch.setenv("STAGING", "of staging")
    (tmp_path / "shardwheel.toml").write_text(FILE)
    return tmp_path


def found(**said: str) -> tuple[str, str] | None:
    reach = look_for_api(Said(**said))  # type: ignore[arg-type]
    return None if reach is None else reach[:2]


def test_flags_before_environment_before_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found() == ("http://file", "of the file")
    monkeypatch.setenv("SHARDWHEEL_TOKEN", "of the shell")
    assert found() == ("http://file", "of the shell")
    monkeypatch.setenv("SHARDWHEEL_API_URL", "http://shell")
    assert found() == ("http://shell", "of the shell")
    assert found(api="http://flag", token="of the flag") == ("http://flag", "of the flag")


def test_a_token_goes_only_where_its_place_or_a_weaker_one_points(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(api="http://typed") == ("http://typed", "")
    monkeypatch.setenv("SHARDWHEEL_API_URL", "http://shell")
    assert found() == ("http://shell", "")


def test_profiles_are_chosen_by_flag_then_by_the_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDWHEEL_API_URL", "http://shell")
    assert found(profile="staging") == ("http://staging", "of staging")
    monkeypatch.delenv("SHARDWHEEL_API_URL")
    monkeypatch.setenv("SHARDWHEEL_PROFILE", "staging")
    assert found() == ("http://staging", "of staging")
    for name, words in (("nowhere", "it knows: bare, staging"), ("bare", "has no api_url")):
        with pytest.raises(UsageError, match=words):
            found(profile=name)


def test_without_any_of_them_the_remedy_is_named(here: Path, shardctl: Shardctl) -> None:
    (here / "shardwheel.toml").unlink()
    shardctl.environment = {}
    answer = shardctl("job", "list")
    assert answer.code == 2 and "--api URL" in answer.errors and "shardctl dev" in answer.errors
    assert found() is None


@pytest.fixture
def two_stacks(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `dev` on the default folder, which nobody names, and another one on the folder that is returned."""
    (here / "shardwheel.toml").write_text('[profiles.s]\napi_url = "http://s"\ntoken = "t"\n')
    for folder, name in ((default_folder(), "usual"), (here / "other", "other")):
        api = Process("api", "api-1", os.getpid(), f"{name}:1", "/log")
        shared = {"postgres_dsn": name, "etcd_endpoints": [name], "secret": name * 10, "standbys": 0}
        write_stack(make_folder(folder), shared, [api])
    return here / "other"


def test_a_dev_that_is_named_wins_over_the_environment(
    two_stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert current_settings().postgres_dsn == "usual"
    monkeypatch.setenv("SHARDWHEEL_POSTGRES_DSN", "production")
    monkeypatch.setenv("SHARDWHEEL_STANDBYS", "1")
    assert current_settings().postgres_dsn == "production"
    named = current_settings(two_stacks)
    assert (named.postgres_dsn, named.etcd_endpoints, named.standbys) == ("other", ("other",), 1)


def test_a_dev_that_merely_runs_here_fills_no_gap_of_a_profile(
    two_stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear(profile="s")
    assert current_settings().postgres_dsn == ""
    assert current_settings(two_stacks).postgres_dsn == "other"
    at_first()
    monkeypatch.setenv("SHARDWHEEL_PROFILE", "s")
    assert current_settings().postgres_dsn == ""
    monkeypatch.setenv("SHARDWHEEL_DATA", str(two_stacks))
    assert current_settings().postgres_dsn == "other"


def test_the_file_may_name_the_dev(two_stacks: Path) -> None:
    Path("shardwheel.toml").write_text(f'data = "{two_stacks}"\n')
    assert current_settings().postgres_dsn == "other"
    assert found() is not None and look_for_api(Said()).url == "http://other:1"  # type: ignore[union-attr]


def test_a_dev_of_the_environment_is_stronger_than_the_file_s_profile(
    two_stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("shardwheel.toml").write_text('profile = "s"\n[profiles.s]\napi_url = "http://s"\ntoken = "t"\n')
    assert found() == ("http://s", "t")
    monkeypatch.setenv("SHARDWHEEL_DATA", str(two_stacks))
    assert found() is not None and look_for_api(Said()).url == "http://other:1"  # type: ignore[union-attr]


def test_what_stands_before_dev_holds_for_its_verbs(two_stacks: Path, shardctl: Shardctl) -> None:
    """Else `shardctl --data X dev stop` ends another one than was meant."""
    for line in ("--data {} dev status", "dev --data {} status", "dev status --data {}"):
        answer = shardctl(*line.format(two_stacks).split(), "-o", "json")
        assert [row["address"] for row in answer.value] == ["other:1"]


def test_handlers_that_are_not_there_are_refused_before_anything_starts(
    here: Path, shardctl: Shardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr("shardwheel.compose.front.serve", started.append)
    monkeypatch.setattr("sys.path", [*sys.path])
    answer = shardctl("dev", "--handlers", "nosuch")
    assert answer.code == 2 and "no module 'nosuch'" in answer.errors and not started
    (here / "mine.py").touch()
    assert shardctl("dev", "--handlers", "mine").code == 0 and len(started) == 1


def test_what_is_restarted_and_stopped_is_told_to_scripts_too(
    two_stacks: Path, shardctl: Shardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardwheel.compose.restart.restart_services", lambda *_: ["worker-short-1"])
    monkeypatch.setattr("shardwheel.compose.commands._end_supervisor", lambda _: True)
    for line, value in (
        ("dev restart worker", {"restarted": ["worker-short-1"]}),
        ("dev stop", {"data": str(two_stacks), "state": "stopped"}),
    ):
        assert shardctl(*line.split(), "--data", str(two_stacks), "-o", "json").value == value
        assert shardctl("-o", "json", *line.split(), "--data", str(two_stacks)).value == value


def test_what_names_a_cluster_are_settings() -> None:
    assert set(NAMES_A_CLUSTER) <= set(Settings.__struct_fields__)


def test_profiles_are_listed_without_their_tokens(here: Path, shardctl: Shardctl) -> None:
    answer = shardctl("profile", "list", "-o", "json")
    assert answer.value == [
        {"name": "staging", "api_url": "http://staging", "cluster": None, "has_token": True},
        {"name": "bare", "api_url": None, "cluster": "b", "has_token": False},
    ]
    (here / "shardwheel.toml").write_text('[profiles.x]\napi_uri = "http://x"\n')
    assert "did you mean 'api_url'" in shardctl("profile", "list").errors


def test_options_stand_anywhere_and_the_last_wins(shardctl: Shardctl) -> None:
    for line in ("-o json task list", "task -o json list", "task list -o json", "-o yaml task list -o json"):
        assert isinstance(shardctl(*line.split()).value, list)
    assert shardctl("--token", "a", "task", "list", "--token", "b").code == 0
    assert shardctl.api.asked[-1].token == "b"
    # Nothing of one line is left for the next.
    assert shardctl("task", "list").text.startswith("TASK") and shardctl.api.asked[-1].token == "t"


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 4), (403, 4), (404, 3), (409, 4), (413, 2), (500, 5)]
)
def test_exit_codes(shardctl: Shardctl, status: int, code: int) -> None:
    shardctl.api.answers["GET /tasks"] = (status, "words")
    answer = shardctl("task", "list")
    assert (answer.code, answer.errors) == (code, "words")


def test_who_can_not_be_reached_is_named(shardctl: Shardctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwheel.commands.calling.RETRY_S", 0.0)
    answer = shardctl("task", "list", SHARDWHEEL_API_URL="http://127.0.0.1:1")
    assert answer.code == 5
    assert "http://127.0.0.1:1, from the environment" in answer.errors and "doctor" in answer.errors


def test_what_is_no_address_is_named_by_who_said_it(shardctl: Shardctl) -> None:
    answer = shardctl("task", "list", "--api", "localhost:8080")
    assert answer.code == 2 and "localhost:8080, from --api, is no address" in answer.errors
    answer = shardctl("task", "list", SHARDWHEEL_API_URL="here")
    assert answer.code == 2 and "here, from the environment, is no address" in answer.errors


def test_an_id_that_would_lead_elsewhere_is_refused(shardctl: Shardctl) -> None:
    for some_id in ("", ".", ".."):
        assert shardctl("job", "delete", some_id, "--yes").code == 2
    assert shardctl.api.asked == []


def test_the_cluster_verbs_never_leave_an_address_that_was_typed(shardctl: Shardctl) -> None:
    shardctl.api.answers["GET /shards"] = (500, "away")
    answer = shardctl("--api", shardctl.api.url, "--token", "t", "shard", "list")
    assert (answer.code, answer.errors) == (5, "away")
