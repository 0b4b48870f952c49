"""`alerts` and `explain` on the command line: whom settings name, what is refused, remedies that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from shardwheel.alerts.notices import Kind
from shardwheel.alerts.rules import rules
from shardwheel.cli import app
from shardwheel.commands.alerts_process import receivers_of
from shardwheel.commands.late import whole
from shardwheel.errors import UsageError
from shardwheel.explaining import explain
from shardwheel.settings import Settings
from tests.unit.explaining.cases import CASES

# Named by the contract; they come with dead letters, executions and DAGs.
COME_LATER = {"dag rerun"}


def test_webhooks_and_pagerduty_are_receivers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert receivers_of(Settings()) == []
    monkeypatch.setenv("ROUTING", "from-env")
    (tmp_path / "key").write_text("from-file\n")
    hooks = ("http://10.0.0.7/hook", "https://example.org/hook")
    for key, expected in (
        ("env:ROUTING", "from-env"),
        (f"file:{tmp_path}/key", "from-file"),
        ("plain", "plain"),
    ):
        *generic, pagerduty = receivers_of(Settings(alert_webhooks=hooks, alert_pagerduty_key=key))
        assert [(receiver.kind, receiver.url) for receiver in generic] == [
            (Kind.WEBHOOK, url) for url in hooks
        ]
        assert (pagerduty.kind, pagerduty.routing_key) == (Kind.PAGERDUTY, expected)
        assert pagerduty.url.endswith("/v2/enqueue")


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        (Settings(alert_webhooks=("ftp://a",)), "alert_webhooks", "not an http or https URL"),
        (Settings(alert_pagerduty_key="env:NOT_THERE"), "alert_pagerduty_key", "has no NOT_THERE"),
        (Settings(alert_pagerduty_key="file:/not/there"), "alert_pagerduty_key", "can't be read"),
    ],
)
def test_a_receiver_that_can_not_be_told_is_refused(settings: Settings, field: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        receivers_of(settings)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "command",
    ["alerts", "alerts list", "alerts silence", "explain", "job update", "job next", "job backfill"],
)
def test_help_comes_with_an_example(command: str) -> None:
    answer = CliRunner().invoke(app, [*command.split(), "--help"])
    assert answer.exit_code == 0
    assert f"shardctl {command}" in answer.output


def test_wrong_words_are_refused_before_anything_is_touched() -> None:
    def error_of(*arguments: str) -> BaseException | None:
        return CliRunner().invoke(app, arguments).exception

    assert isinstance(error_of("alerts", "silence", "no-id", "--for", "soon"), UsageError)
    assert isinstance(error_of("job", "update", "no-id"), UsageError)
    assert isinstance(error_of("job", "update", "no-id", "--set", "timeout_s"), UsageError)
    assert isinstance(error_of("job", "backfill", "no-id", "--from", "monday", "--to", "friday"), UsageError)


def commands_of(group: typer.core.TyperGroup, before: str = "") -> set[str]:
    found = set()
    for name, command in group.commands.items():
        loaded = whole(command)
        inner = getattr(loaded, "commands", None)
        found |= {before + name} | (commands_of(loaded, f"{before}{name} ") if inner else set())
    return found


def test_every_command_that_a_remedy_names_is_there() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    known = commands_of(group) | COME_LATER
    texts = [rule.remedy for rule in rules().values()] + [explain(case[0]).remedy for case in CASES]
    named = re.findall(r"`shardctl ([a-z]+)(?: ([a-z-]+))?", " ".join(texts))
    assert len(named) > 50
    nouns = {command.split()[0] for command in known if " " in command}
    for noun, verb in named:
        whole = f"{noun} {verb}" if noun in nouns and verb and not verb.startswith("-") else noun
        assert whole in known, whole
