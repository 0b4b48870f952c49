"""The reference pages say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.reference import pages
from shardwheel.setting_words import GROUPS
from shardwheel.settings import Settings

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_in_step_with_the_code(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name], "run `make docs`"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_every_setting_is_described_once() -> None:
    described = [key for words in GROUPS.values() for names in words for key in names.split()]
    assert sorted(described) == sorted(Settings.__struct_fields__)


def test_choices_are_shown_as_they_are_typed() -> None:
    assert "One of short, medium, long." in PAGES["cli.md"] and "SHORT" not in PAGES["cli.md"]


def test_every_command_says_what_it_does() -> None:
    """A heading is followed by a sentence, never by a table or the next heading."""
    blocks = PAGES["cli.md"].split("\n## ")[1:]
    assert [block.splitlines()[0] for block in blocks if not block.splitlines()[2][:1].isalpha()] == []
