"""The examples run, on the scheduler in memory; and the pages that show them show what is in them."""

from __future__ import annotations

import importlib
import re
import textwrap
from pathlib import Path

import pytest

from shardwheel.handler import import_handlers
from shardwheel.testing import Scheduler

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture(autouse=True)
def in_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import_handlers("handlers")


def test_the_readmes_handler(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler()
    scheduler.client.enqueue("email.send", {"to": "a@b.c"})
    scheduler.advance(seconds=1)
    assert [ran.outcome for ran in scheduler.attempts] == ["succeeded"]
    assert capsys.readouterr().out == "to a@b.c attempt 1\n"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("quick_start", ["next: ['2026-01-05T08:00:00+00:00', '2026-01-06T08", "sent: succeeded after 1"]),
        ("etl_dag", ["succeeded {'files': 3, 'bytes': 24}"]),
        ("long_job", ["succeeded in attempt 2", "2 indexed pages=3"]),
    ],
)
def test_an_example(name: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(name).main(Scheduler().client)
    out = capsys.readouterr().out
    assert all(text in out for text in shown), out


def test_ones_own_tests() -> None:
    module = importlib.import_module("test_reminders")
    tests = [name for name in vars(module) if name.startswith("test_")]
    for name in tests:
        getattr(module, name)()
    assert len(tests) == 3


@pytest.mark.parametrize("page", ["client.md", "testing.md"])
def test_what_a_page_shows_is_in_an_example(page: str) -> None:
    files = [path.read_text() for path in EXAMPLES.glob("*.py")]
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        forms = (textwrap.indent(block, " " * depth) for depth in (0, 4))
        assert any(form in text for form in forms for text in files), block
