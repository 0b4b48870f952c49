"""Where the API is: flags, environment, file and profiles; no token goes where another place points."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.commands.reach import look_for_api
from shardwheel.commands.said import Said
from shardwheel.errors import UsageError
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


def test_an_id_that_would_lead_elsewhere_is_refused(shardctl: Shardctl) -> None:
    for some_id in ("", ".", ".."):
        assert shardctl("job", "delete", some_id, "--yes").code == 2
    assert shardctl.api.asked == []


def test_the_cluster_verbs_never_leave_an_address_that_was_typed(shardctl: Shardctl) -> None:
    shardctl.api.answers["GET /shards"] = (500, "away")
    answer = shardctl("--api", shardctl.api.url, "--token", "t", "shard", "list")
    assert (answer.code, answer.errors) == (5, "away")
