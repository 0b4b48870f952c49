"""What `make check` refuses: pickle, eval and SQL made of strings, planted here and found by its ruff."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_statements import sources

ROOT = Path(__file__).parents[2]
PLANTED = {
    "eval": ("S307", "def run(text: str) -> object:\n    return eval(text)\n"),
    "exec": ("S102", "def run(text: str) -> None:\n    exec(text)\n"),
    "pickle": ("TID251", "import pickle\n\nsize = len(pickle.dumps([]))\n"),
    "pickle.loads": ("S301", "from pickle import loads\n\nfound = loads(b'')\n"),
    "_pickle": ("TID251", "import _pickle\n\nsize = len(_pickle.dumps([]))\n"),
    "dill": ("TID251", "from dill import loads\n\nfound = loads(b'')\n"),
    "a shell": ("S602", "import subprocess\n\nsubprocess.run('ls', shell=True, check=True)\n"),
    "marshal": ("TID251", "import marshal\n\nsize = len(marshal.dumps([]))\n"),
    "shelve": ("TID251", "import shelve\n\nfound = shelve.open('x')\n"),
    "an f-string": (
        "S608",
        "def made(name: str) -> str:\n    return f\"SELECT * FROM jobs WHERE name = '{name}'\"\n",
    ),
    "a sum": ("S608", "def made(name: str) -> str:\n    return 'DELETE FROM jobs WHERE name = ' + name\n"),
    "a percent": ("S608", "def made(name: str) -> str:\n    return \"UPDATE jobs SET name = '%s'\" % name\n"),
}


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("where", ["shardwheel/store/planted.py", "api/planted.py"])
def test_ci_refuses(planted: str, where: str) -> None:
    rule, code = PLANTED[planted]
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", where, "-"]
    found = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
    assert found.returncode == 1 and rule in found.stdout, found.stdout


# Reads dumps of other schedulers, and brings nothing in them to life.
MAY_OPT_OUT = {"shardwheel/importing/inert.py": {"TID251"}}
OPTS_OUT = re.compile(r"#\s*(?:ruff:\s*|flake8:\s*)?noqa(?::\s*([A-Z0-9, ]+))?", re.IGNORECASE)
# As names, whatever is done with them: ruff knows the plain call only.
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}


def test_nobody_opts_out_of_these() -> None:
    found = {str(path.relative_to(ROOT)): opted_out(path.read_text()) for path in sources()}
    assert {name: rules for name, rules in found.items() if rules} == MAY_OPT_OUT
    assert opted_out("import pickle  # noqa\n# ruff: noqa: S301, E501") == {"everything", "S301"}


def opted_out(code: str) -> set[str]:
    refused = {rule for rule, _ in PLANTED.values()}
    said = [found[1] for found in OPTS_OUT.finditer(code)]
    return {rule for rules in said for rule in re.findall(r"\w+", rules or "everything")} & (
        refused | {"everything"}
    )


def test_no_text_is_run_under_another_name() -> None:
    found = {str(path.relative_to(ROOT)): names for path in sources() if (names := runs(path.read_text()))}
    assert found == {}
    assert runs("run = eval\nlist(map(exec, x))\n__import__('pickle')") == {"eval", "exec", "__import__"}
    assert runs("import re\nre.compile('x')") == set()


def runs(code: str) -> set[str]:
    names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return names & RUNS_TEXT


def test_ci_checks_every_room() -> None:
    made = (ROOT / "Makefile").read_text()
    assert "ruff check $(ROOMS) shardwheel tests examples" in made
