"""`shardctl doctor` on the API: in reach, ours, its clock, the token; and what to do where one fails."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from shardwheel.commands.doctor_api import of_api
from shardwheel.commands.findings import Finding
from shardwheel.commands.reach import Reach
from shardwheel.tokens import tenant_token
from tests.unit.commands.conftest import Shardctl
from tests.unit.commands.stub import Stub

TOKEN = tenant_token(
    "s" * 32,
    tenant="acme",
    role="viewer",
    name="ann",
    expires_at_s=4_000_000_000,
    issuer="shardwheel",
    audience="shardwheel",
)


@pytest.fixture
def reach(served: Stub) -> Iterator[Reach]:
    served.answers.clear()
    yield Reach(served.url, TOKEN, "--api")
    served.answers.clear()


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def test_one_that_is_well(reach: Reach) -> None:
    found = by_check(of_api(reach))
    assert list(found) == ["api", "api clock", "token"]
    assert [finding.remedy for finding in found.values()] == ["", "", ""]
    assert found["api"].state == f"in reach at {reach.url}, version 0.1.0"
    assert found["token"].state.startswith("good: viewer of tenant acme until 2096-10-02T07:06:40.000Z")


def test_a_token_that_it_does_not_believe(served: Stub, reach: Reach) -> None:
    served.answers["GET /jobs"] = (401, "the token has run out")
    token = by_check(of_api(reach))["token"]
    assert token.state == "the token has run out" and "shardctl token create" in token.remedy
    assert "SHARDWHEEL_TOKEN" in by_check(of_api(reach._replace(token="")))["token"].remedy


def test_a_token_that_no_header_can_carry_is_not_shown(reach: Reach) -> None:
    token = by_check(of_api(reach._replace(token="two\nlines")))["token"]
    assert "blanks" in token.state and "lines" not in token.state and token.remedy


def test_a_clock_that_is_wrong(reach: Reach) -> None:
    clock = by_check(of_api(reach, now_s=lambda: time.time() + 600))["api clock"]
    assert "behind this machine's" in clock.state and "NTP" in clock.remedy


def test_one_that_can_not_serve(served: Stub, reach: Reach) -> None:
    served.answers["GET /readyz"] = (503, "PostgreSQL is away")
    (finding,) = of_api(reach)
    assert "PostgreSQL is away" in finding.state and "shardctl api" in finding.remedy


def test_a_stranger_at_that_address(served: Stub, reach: Reach) -> None:
    served.answers["GET /readyz"] = {"hello": "world"}
    (finding,) = of_api(reach)
    assert "is not Shardwheel's API" in finding.state and "--api" in finding.remedy


@pytest.mark.parametrize(
    ("scheme", "remedy"), [("https", "write http://"), ("ftp", "write http://host:port")]
)
def test_an_address_that_is_written_wrongly(reach: Reach, scheme: str, remedy: str) -> None:
    (finding,) = of_api(reach._replace(url=reach.url.replace("http", scheme)))
    assert remedy in finding.remedy, finding


def test_nobody_there() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        (finding,) = of_api(Reach(url, "", "the environment"))
    assert finding.state.startswith(f"out of reach: {url}, from the environment")
    assert "is `shardctl api` up" in finding.remedy


def test_nobody_names_it() -> None:
    (finding,) = of_api(None)
    assert finding.remedy == "" and "SHARDWHEEL_API_URL" in finding.state


def test_the_command_tells_of_it_beside_the_servers(shardctl: Shardctl) -> None:
    answer = shardctl("doctor", "-o", "json")
    rows = {row["check"]: row for row in answer.value}
    assert answer.code == 1 and rows["api"]["ok"] and not rows["postgres"]["ok"]
