"""Pages walked through as a reader does: one shell a page, its commands one after the other, what they show
compared with what the page shows.

Ids, times, durations and names of processes differ from run to run. An id of the page stands for the one
that was shown in its place, there and in every later command. A command that only looks is said again until
it shows what the page shows: a reader, too, looks a moment later.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.forked import bin_with_shardctl
from tests.pages import ROOT, Block, Step

LIMIT_S = 300.0
LOOK_LIMIT_S = 120.0
END_LIMIT_S = 60.0
END = "\x1e"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# What differs from run to run, and what it is on a page and in a terminal.
LOOSE = (
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)",
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d",
    r"127\.0\.0\.1:\d+",
    r"\d+(?:\.\d+)? (?:ms|s|min|h)\b",
    r"(?<=duration_ms )\d+",
    r"[a-z][\w.]*-\d+-[0-9a-f]{8}\b",
)
TOKEN = re.compile(
    "|".join([f"(?P<uuid>{UUID})", *(f"(?P<loose{i}>{one})" for i, one in enumerate(LOOSE)), "(?P<any>…)"])
)
LOOKS = re.compile(
    r"^(?:shardctl .*\b(?:list|get|show|runs|explain|status|logs|next|partition list|doctor)\b"
    r"|cat |tail |psql .*pg_is_in_recovery)"
)
FIELD = """#!{python} -IS
import json, sys
try:
    found = json.load(sys.stdin)
    found = found.get("items", found) if isinstance(found, dict) else found
    found = found[0] if isinstance(found, list) else found
    print(found[sys.argv[1]])
except (ValueError, LookupError):
    sys.exit(1)
"""
# `wait_for FIELD COMMAND…`: the field of its answer, as soon as there is one.
# `wait_until WORDS COMMAND…`: till it shows them.
# `freeze ROLE`, `thaw ROLE`: a process of `shardctl dev` answers nobody, and does again.
PRELUDE = """
again() { for _ in {1..600}; do "$@" && return; sleep 0.1; done; return 1; }
asked() { "${@:2}" -o json 2>/dev/null | field "$1"; }
shown() { "${@:2}" 2>&1 | grep -- "$1" >/dev/null; }
wait_for() { again asked "$@"; }
wait_until() { again shown "$@"; }
pid_of() { shardctl dev status | awk -v id="$1" '$1 == id { print $2 }'; }
freeze() { kill -STOP $(pid_of "$1"); }
thaw() { kill -CONT $(pid_of "$1"); }
set -o pipefail
"""


class Said(NamedTuple):
    code: int
    text: str


class Shell:
    """One bash, which keeps its folder and its variables from command to command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._kept: list[Path] = []
        self.say(PRELUDE)

    def say(self, command: str) -> Said:
        return self._do(f"eval {shlex.quote(command)} </dev/null")

    def keep(self, command: str) -> Path:
        """Start what runs on; the file that it writes to."""
        path = self.folder / f".runs-on-{len(self._kept)}"
        self._kept.append(path)
        self._do(f"eval {shlex.quote(command)} </dev/null >{path} 2>&1 &")
        return path

    def _do(self, text: str) -> Said:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{text}\nprintf '\\n\\036%d\\036\\n' $?\n".encode())
        self._bash.stdin.flush()
        got = self._until_end()
        shown, code, _ = got.rsplit(END, 2)
        return Said(int(code), shown.removesuffix("\n"))

    def _until_end(self) -> str:
        assert self._bash.stdout is not None
        got, give_up_at_s = b"", time.monotonic() + LIMIT_S
        while got.count(END.encode()) < 2:
            left_s = give_up_at_s - time.monotonic()
            assert left_s > 0 and select.select([self._bash.stdout], [], [], left_s)[0], got.decode()
            piece = os.read(self._bash.stdout.fileno(), 1 << 16)
            assert piece, f"the shell has ended: {got.decode()}"
            got += piece
        return got.decode()

    def close(self) -> None:
        """With all that runs on in it, in good order if it can."""
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait(LIMIT_S)
        # Not only the jobs that the shell knows: each is a shell of its own, and what it waits for its child.
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGTERM)
            give_up_at_s = time.monotonic() + END_LIMIT_S
            while time.monotonic() < give_up_at_s:
                os.killpg(self._bash.pid, 0)
                time.sleep(0.05)
            os.killpg(self._bash.pid, signal.SIGKILL)


@contextmanager
def shardctl_ready(folder: Path) -> Iterator[Path]:
    """A folder for PATH with a quick `shardctl`, and the helpers of what a page's comments say."""
    path = folder / "forked.sock"
    process = subprocess.Popen([sys.executable, "-m", "tests.forked", str(path)], cwd=ROOT)
    try:
        give_up_at_s = time.monotonic() + LIMIT_S
        while not path.exists():
            assert process.poll() is None and time.monotonic() < give_up_at_s
            time.sleep(0.02)
        found = bin_with_shardctl(folder / "bin", path)
        field = found / "field"
        field.write_text(FIELD.format(python=sys.executable))
        field.chmod(0o755)
        yield found
    finally:
        process.kill()
        process.wait()


class Walk:
    """A page walked through, block by block."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._ids: dict[str, str] = {}
        self.steps = 0

    def walk(self, block: Block) -> None:
        if block.not_run:
            return
        if block.file:
            (self._shell.folder / block.file).write_text(block.body)
        if block.first:
            said = self._shell.say(self._with_ids(block.first))
            assert said.code == 0, f"{block.page}: first: {block.first}\n{said.text}"
        for step in block.steps:
            where = f"{block.page}:{step.line}: $ {step.command}"
            self._stay(step, where) if block.stays else self._take(step, where)
            self.steps += 1

    def _take(self, step: Step, where: str) -> None:
        give_up_at_s = time.monotonic() + LOOK_LIMIT_S
        while True:
            said = self._shell.say(self._with_ids(step.command))
            well = self._shows(step.shown, said.text) and said.code in codes_of(step)
            if well or not LOOKS.match(step.command) or time.monotonic() > give_up_at_s:
                break
            time.sleep(0.1)
        shown = "\n".join(step.shown)
        assert well, f"{where}\n--- the page\n{shown}\n--- the terminal ({said.code})\n{said.text}"

    def _stay(self, step: Step, where: str) -> None:
        path = self._shell.keep(self._with_ids(step.command))
        give_up_at_s = time.monotonic() + LIMIT_S
        while not self._shows(step.shown, path.read_text() if path.exists() else ""):
            assert time.monotonic() < give_up_at_s, f"{where}\n{path.read_text()[:4_000]}"
            time.sleep(0.1)

    def _shows(self, shown: tuple[str, ...], text: str) -> bool:
        """Whether it does; if so, what the page's new ids stand for is known from then on."""
        if not shown:
            return True
        found = re.fullmatch(pattern_of(shown, self._ids), plain(text))
        if found is not None:
            self._ids |= {unnamed(name): value for name, value in found.groupdict().items()}
        return found is not None

    def _with_ids(self, command: str) -> str:
        return re.sub(UUID, lambda found: self._ids.get(found[0], found[0]), command)


def codes_of(step: Step) -> set[int]:
    """How it may end: well, unless the page says otherwise or shows a refusal."""
    if said := re.search(r"# .*exit code (\d)", step.command):
        return {int(said[1])}
    return {2, 3, 4, 5} if any(line.startswith("shardctl: ") for line in step.shown) else {0}


def plain(text: str) -> str:
    """Where a terminal breaks a line, and how wide it makes a column, depends on what is in them."""
    return " ".join(text.split()) + " "


def pattern_of(shown: tuple[str, ...], ids: Mapping[str, str]) -> str:
    text = plain("\n".join(shown))
    seen: set[str] = set()
    parts: list[str] = []
    at = 0
    for found in TOKEN.finditer(text):
        parts.append(re.escape(text[at : found.start()]))
        at = found.end()
        if found.lastgroup == "any" and text[found.start() - 1 : found.start()] in " " and text[at] == " ":
            # Standing alone, for as many words as there may be.
            parts.append("(?:.* )??")
            at += 1
        else:
            parts.append(_token_pattern(found, ids, seen))
    return "".join([*parts, re.escape(text[at:])])


def _token_pattern(found: re.Match[str], ids: Mapping[str, str], seen: set[str]) -> str:
    if found.lastgroup == "any":
        return ".*"
    if found.lastgroup != "uuid":
        return LOOSE[int(str(found.lastgroup).removeprefix("loose"))]
    if found[0] in ids:
        return re.escape(ids[found[0]])
    if found[0] in seen:
        return f"(?P={named(found[0])})"
    seen.add(found[0])
    return f"(?P<{named(found[0])}>{UUID})"


def named(uuid: str) -> str:
    """A group's name is a word."""
    return "id_" + uuid.replace("-", "_")


def unnamed(name: str) -> str:
    return name.removeprefix("id_").replace("_", "-")
