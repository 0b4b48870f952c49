"""What `make check` refuses: pickle, eval and SQL made of strings, planted here and found by its ruff."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = {
    "eval": ("S307", "def run(text: str) -> object:\n    return eval(text)\n"),
    "exec": ("S102", "def run(text: str) -> None:\n    exec(text)\n"),
    "pickle": ("TID251", "import pickle\n\nsize = len(pickle.dumps([]))\n"),
    "pickle.loads": ("S301", "from pickle import loads\n\nfound = loads(b'')\n"),
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


def test_ci_checks_every_room() -> None:
    made = (ROOT / "Makefile").read_text()
    assert "ruff check $(ROOMS) shardwheel tests examples" in made
