"""Where the API is and who asks: said, or from the settings; and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel import Client
from shardwheel.errors import BadTokenError, UsageError


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of whoever runs this."""
    monkeypatch.chdir(tmp_path)
    for name in ("SHARDWHEEL_API_URL", "SHARDWHEEL_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_an_address_is_taken_with_or_without_what_every_path_begins_with() -> None:
    for given in ("http://a:1", "http://a:1/", "http://a:1/api/v1", "http://a:1/api/v1/"):
        assert Client(given, token="t")._address() == ("http://a:1/api/v1", {"authorization": "Bearer t"})


def test_what_is_not_said_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("shardwheel.toml").write_text('api_url = "http://file:1"\ntoken = "filed"\n')
    assert Client()._address() == ("http://file:1/api/v1", {"authorization": "Bearer filed"})
    monkeypatch.setenv("SHARDWHEEL_API_URL", "http://environment:1")
    assert Client()._address()[0] == "http://environment:1/api/v1"
    assert Client("http://said:1", token="said")._address()[1] == {"authorization": "Bearer said"}


def test_the_settings_may_say_where_the_token_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `shardctl` reads the same file."""
    monkeypatch.setenv("STAGING_TOKEN", "of.staging")
    Path("shardwheel.toml").write_text(
        'profile = "s"\n[profiles.s]\napi_url = "http://s:1"\ntoken = "env:STAGING_TOKEN"\n'
    )
    assert Client()._address() == ("http://s:1/api/v1", {"authorization": "Bearer of.staging"})


def test_without_an_address_the_first_call_says_what_to_set() -> None:
    client = Client(tenant="for one's own transactions only")
    with pytest.raises(UsageError, match="SHARDWHEEL_API_URL"):
        client.get_job("x")


@pytest.mark.parametrize("nonsense", ["localhost:8080", "ftp://a", "http://a:port", "http://", "//"])
def test_what_is_no_address_is_refused_by_name(nonsense: str) -> None:
    with pytest.raises(UsageError) as caught:
        Client(nonsense, token="t").get_job("x")
    assert caught.value.field == "base_url"


def test_no_secret_is_shown() -> None:
    shown = repr(Client("http://user:password@host:8080", token="token"))
    assert shown == "Client(host:8080)"


def test_a_token_read_from_a_file_brings_its_end_of_line_along() -> None:
    assert Client("http://a:1", token=" of.a.file\n")._address()[1] == {"authorization": "Bearer of.a.file"}


@pytest.mark.parametrize("odd", ["two\nlines", "two words", "schlüssel", "nul\0"])
def test_what_can_be_no_token_is_refused_and_not_shown(odd: str) -> None:
    """Else httpx quotes it in an error that looks like an API that does not answer, and it is tried again."""
    with pytest.raises(BadTokenError, match="shardctl token create") as caught:
        Client("http://127.0.0.1:1", token=odd).get_job("x")
    assert odd not in str(caught.value) and caught.value.field == "token"


@pytest.mark.parametrize("nothing", ["", ".", ".."])
def test_an_id_that_would_lead_to_another_route_is_refused(nothing: str) -> None:
    client = Client("http://127.0.0.1:1", token="t")
    for call in (client.get_job, client.delete_job, client.get_execution, client.get_dag):
        with pytest.raises(UsageError) as caught:
            call(nothing)
        assert caught.value.field == "id"
