"""The pages of docs/ as tests read them: their commands, what each shows, and what else a test must know.

A block of commands is a `console` block: a line `$ …` is a command, lines `> …` go on with it, the others are
what the terminal shows. There a line of `…` stands for any lines, `…` in a line for anything. Right above a
block may stand comments, which no reader sees:

    <!-- first: JOB=$(wait_for id shardctl job list) -->     what the test has to do before
    <!-- stays -->                                           it runs on beside what follows
    <!-- file: nightly.yaml -->                              what the block shows is that file
    <!-- not run: it needs a second machine -->              it is only held to what commands there are
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCED = re.compile(
    r"(?P<notes>(?:<!--(?:(?!-->).)*-->\n)*)```(?P<language>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S
)
NOTE = re.compile(r"<!-- (first:|not run:|file:|stays)(.*?)-->", re.S)
INLINE = re.compile(r"(?<!`)`(shardctl [^`]+)`(?!`)")


class Step(NamedTuple):
    """One command, the line of the page that it begins in, and the lines that it shows."""

    line: int
    command: str
    shown: tuple[str, ...]


class Block(NamedTuple):
    page: str
    language: str
    body: str
    steps: tuple[Step, ...]
    first: str = ""
    not_run: str = ""
    file: str = ""
    stays: bool = False


def pages() -> dict[str, str]:
    """Every page that is written by hand, by its path."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths if "reference" not in path.parts}


def blocks_of(page: str, text: str) -> Iterator[Block]:
    for found in FENCED.finditer(text):
        notes = {kind.rstrip(":"): words.strip() for kind, words in NOTE.findall(found["notes"])}
        line = text.count("\n", 0, found.start("body")) + 1
        yield Block(
            page,
            found["language"],
            found["body"],
            tuple(_steps(line, found["body"])) if found["language"] == "console" else (),
            notes.get("first", ""),
            notes.get("not run", ""),
            notes.get("file", ""),
            "stays" in notes,
        )


def _steps(line: int, body: str) -> Iterator[Step]:
    command: list[str] = []
    shown: list[str] = []
    begun = line
    for number, text in enumerate(body.splitlines(), line):
        if text.startswith("$ "):
            if command:
                yield Step(begun, "\n".join(command), tuple(shown))
            command, shown, begun = [text[2:]], [], number
        elif text.startswith("> ") and not shown:
            command.append(text[2:])
        else:
            shown.append(text)
    if command:
        yield Step(begun, "\n".join(command), tuple(shown))


def inline_commands(text: str) -> Iterator[str]:
    """What stands in a sentence as `shardctl …`."""
    yield from (" ".join(found.split()) for found in INLINE.findall(FENCED.sub("", text)))
