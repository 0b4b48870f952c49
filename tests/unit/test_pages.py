"""Every command that a page, a help text or a message names is there, with those options."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from shardwheel.reference import pages as reference_pages
from tests.command_lines import invocations, problem_of, spelled_out
from tests.pages import FENCED, ROOT, blocks_of, inline_commands, pages
from tests.rooms import ROOMS
from tests.shell import pattern_of, plain

PAGES = pages()
# Rewritten for one machine at the reader's side: more than these few would be a page that nobody tried.
MOST_NOT_RUN = 8
SHELL = re.compile(r"```(?:sh|bash|shell)\n(.*?)```", re.S)


def problems(lines: list[str]) -> list[str]:
    found = [(line, problem_of(words, is_whole=True)) for line in lines for words in invocations(line)]
    return [f"{line}: {problem}" for line, problem in found if problem]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_has_to_be_typed_is_understood(page: str) -> None:
    steps = [step for block in blocks_of(page, PAGES[page]) for step in block.steps]
    assert problems([step.command for step in steps]) == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_where_a_test_runs_them(page: str) -> None:
    """In console blocks, that is, each behind its `$`."""
    for block in blocks_of(page, PAGES[page]):
        assert block.language not in ("sh", "bash", "shell"), f"make it a console block: {block.body}"
        if block.language == "console":
            assert block.body.startswith("$ "), block.body
        elif not block.language:
            assert not re.search(r"^(shardctl|\$) ", block.body, re.M), (
                f"make it a console block: {block.body}"
            )


@pytest.mark.parametrize("page", PAGES)
def test_what_a_sentence_names_is_there(page: str) -> None:
    named = [words for text in inline_commands(PAGES[page]) for words in spelled_out(text) if "<" not in text]
    assert [problem for words in named if (problem := problem_of(words, is_whole=False))] == []


def test_the_examples_of_the_reference_are_understood() -> None:
    lines = [line for block in SHELL.findall(reference_pages()["cli.md"]) for line in block.splitlines()]
    assert len(lines) > 100 and problems([line for line in lines if "shardctl" in line]) == []


def test_what_messages_and_docstrings_name_is_there() -> None:
    """Remedies send people to commands: they had better exist. What the code fills in stands for anything."""
    found = []
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for text in re.findall(r"`(shardctl [^`\n\\]+)`", path.read_text()):
            plain = re.sub(r"\{[^{}]*\}", "X", re.sub(r"\{'(\w+)' if [^{}]*\}", r"\1", text))
            for words in spelled_out(plain.replace("'", "").replace('"', "")):
                if problem := problem_of(words, is_whole=False):
                    found.append(f"{path.relative_to(ROOT)}: {text}: {problem}")
    assert found == []


def test_what_is_not_run_says_why_and_is_little() -> None:
    reasons = [
        block.not_run for page, text in PAGES.items() for block in blocks_of(page, text) if "not run" in text
    ]
    reasons = [reason for reason in reasons if reason]
    assert len(reasons) <= MOST_NOT_RUN and all(len(reason) > 10 for reason in reasons), reasons


THEIRS, OURS = "01a1f04d-3c7e-790b-b42c-57d6fcc2a1f4", "01a1f04e-0f50-0019-53e1-8bc96cec16ae"


@pytest.mark.parametrize(
    ("page", "terminal", "is_so"),
    [
        (f"id  {THEIRS}\nstate  dead", f"id {OURS}\nstate   dead", True),
        (f"id  {THEIRS}\nstate  dead", f"id {OURS}\nstate   held", False),
        (f"{THEIRS} {THEIRS}", f"{OURS} {OURS}", True),
        (f"{THEIRS} {THEIRS}", f"{OURS} {THEIRS}", False),
        ("at 2026-11-18T20:16:00Z, 2.57 s ago", "at 2027-01-01T00:00:00.000Z,\n12 s ago", True),
        ("attempt 1", "attempt 2", False),
        ("…\nstate a\n…", "state a", True),
        ("id x\n…\nstate a", "id x\n1\n2\nstate a", True),
        ("id x\n…\nstate a", "id x\nstate b", False),
        ("in …/mine/h.py", "in /tmp/1/mine/h.py", True),
        ("in …/mine/h.py", "in /tmp/1/yours/h.py", False),
    ],
)
def test_what_a_terminal_shows_is_what_the_page_shows(page: str, terminal: str, is_so: bool) -> None:
    assert bool(re.fullmatch(pattern_of(tuple(page.splitlines()), {}), plain(terminal))) is is_so


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("shardctl jobs list", "'jobs' is too much for shardctl"),
        ("shardctl job create email.send --crn '* * * * *'", "No such option: --crn"),
        ("X=$(shardctl job make a) shardctl doctor", "'make' is too much for shardctl job"),
        ("shardctl job get", "shardctl job get wants ['job_id']"),
        ("shardctl job", "shardctl job wants a verb"),
        ("shardctl job get $JOB | grep state && shardctl rebalance --dry-run", ""),
    ],
)
def test_a_line_that_is_not_understood(line: str, problem: str) -> None:
    assert [one.startswith(f"{line}: {problem}") for one in problems([line])] == [True] * bool(problem)


LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchors_of(text: str) -> set[str]:
    headings = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_a_link_leads_somewhere(page: str) -> None:
    lost = []
    for link in LINK.findall(FENCED.sub("", (ROOT / page).read_text())):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text())):
            lost.append(link)
    assert lost == []


def test_every_page_is_within_two_links_of_the_readme() -> None:
    def named_in(page: str) -> set[str]:
        links = (link.partition("#")[0] for link in LINK.findall((ROOT / page).read_text()))
        near = ((ROOT / page).parent / link for link in links if link.endswith(".md") and "://" not in link)
        return {str(path.resolve().relative_to(ROOT)) for path in near}

    first = named_in("README.md")
    reached = first.union(*(named_in(page) for page in first))
    assert {page for page in PAGES if "decisions" not in page} - reached == {"README.md"}


def test_the_files_that_the_architecture_names_are_there() -> None:
    """In its tables a row's later names stand in the folder of the one before, or in any room."""
    missing = []
    for row in re.findall(r"^\| (`[^|]*) \|", PAGES["docs/architecture.md"], re.M):
        for name in re.findall(r"`([\w/*.]+\.(?:py|sql)|\w+/)`", row):
            found = [*ROOT.glob(name), *ROOT.glob(f"shardwheel/{name}"), *ROOT.glob(f"*/{name}")]
            found += ROOT.glob(f"shardwheel/*/{name}")
            if not found:
                missing.append(name)
    assert missing == []


PYTHON = [
    pytest.param(block.body, id=f"{page}-{number}")
    for page, text in PAGES.items()
    for number, block in enumerate(blocks_of(page, text))
    if block.language == "python"
]


@pytest.mark.parametrize("body", PYTHON)
def test_python_on_a_page_is_python_and_imports_what_there_is(body: str) -> None:
    tree = ast.parse(body.replace("): ...", "):\n    ..."))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in names:
        module = importlib.import_module(node.module or "")
        assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
