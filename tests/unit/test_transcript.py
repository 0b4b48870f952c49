"""The transcript is of the page that it stands beside: the same commands, and what the page shows of each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.pages import Step, blocks_of, pages
from tests.shell import UUID, pattern_of, plain, unnamed

PAGES = pages()


def said() -> list[tuple[str, str]]:
    """What was typed and what it showed, in all its terminals."""
    blocks = [block.body for block in blocks_of("docs/transcript.md", PAGES["docs/transcript.md"])]
    commands = [part for body in blocks for part in re.split(r"^\$ ", body, flags=re.M)[1:]]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in commands)]


def steps() -> list[Step]:
    return [step for block in blocks_of("docs/start.md", PAGES["docs/start.md"]) for step in block.steps]


def with_ids(command: str, ids: Mapping[str, str]) -> str:
    return re.sub(UUID, lambda found: ids.get(found[0], found[0]), command)


def test_every_step_of_the_page_is_in_it_and_shows_what_the_page_shows() -> None:
    left = iter(said())
    ids: dict[str, str] = {}
    # Said before the second block of the transcript begins, as it tells.
    wanted = [step for step in steps() if not step.command.startswith("source ")]
    assert len(wanted) > 15
    for step in wanted:
        command = with_ids(step.command, ids)
        shown = next((shown for typed, shown in left if typed == command), None)
        assert shown is not None, f"the transcript has no: $ {command}"
        found = re.fullmatch(pattern_of(step.shown, ids), plain(shown)) if step.shown else None
        assert found or not step.shown, (
            f"$ {command}\n--- start.md\n{step.shown}\n--- the transcript\n{shown}"
        )
        ids.update({unnamed(name): value for name, value in (found.groupdict() if found else {}).items()})
