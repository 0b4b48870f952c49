"""Supervision, on real processes: tiny Python children that note their lives in a file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import trio_test

from shardwheel.compose import child as child_module
from shardwheel.compose import process
from shardwheel.compose.child import Child
from shardwheel.compose.server import StartError
from shardwheel.compose.state import Process
from shardwheel.compose.supervisor import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    PROVEN_AFTER_S,
    Board,
    next_delay_s,
    supervised,
)

LIMIT_S = 120

# Serves until SIGTERM: notes "up NAME PID" once it can be stopped, and "down NAME PID" when it is.
SERVING = """
import os, signal, sys
name, notes = sys.argv[1:]
def note(word):
    with open(notes, "a") as stream:
        stream.write(f"{word} {name} {os.getpid()}\\n")
def stop(*_):
    note("down")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
note("up")
while True:
    signal.pause()
"""
DEAF = SERVING.replace("signal.signal(signal.SIGTERM, stop)", "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
FAILING = "import sys; print('no such luck'); sys.exit(7)"
# Its first life ends by a signal before it is ready, as when a driver aborts; the second one serves.
ABORTING_ONCE = (
    """
import os, pathlib, sys
first = pathlib.Path(sys.argv[2] + ".first")
if not first.exists():
    first.touch()
    os.abort()
"""
    + SERVING
)


class Scene:
    """A board whose lines are kept, and children that note their lives in one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.touch()
        self.said: list[str] = []
        self.states: list[tuple[str, str]] = []
        self.board = Board(self.said.append, self._changed)

    def _changed(self, processes: list[Process]) -> None:
        self.states += [(entry.id, entry.state) for entry in processes]

    def noted(self, word: str) -> list[str]:
        return [line for line in self.notes.read_text().splitlines() if line.startswith(word)]

    def process(self, name: str) -> Process:
        return next(entry for entry in self.board.processes if entry.id == name)

    def child(self, name: str, code: str = SERVING) -> Child:
        async def ready() -> bool:
            return f"up {name} {self.process(name).pid}" in self.noted("up")

        argv = (sys.executable, "-I", "-S", "-c", code, name, str(self.notes))
        log_path = self.folder / f"{name}.log"
        return Child(role=name, id=name, argv=argv, environment={}, log_path=log_path, ready=ready)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(LIMIT_S):
        while not condition():
            await trio.sleep(0.02)


def pids(scene: Scene) -> list[int]:
    return [entry.pid for entry in scene.board.processes if entry.pid is not None]


@trio_test
async def test_groups_start_from_the_outside_and_stop_from_the_inside(scene: Scene) -> None:
    async with supervised([scene.child("server"), scene.child("other")], scene.board):
        assert len(scene.noted("up")) == 2
        async with supervised([scene.child("service")], scene.board):
            assert [entry.state for entry in scene.board.processes] == ["running"] * 3
            alive = pids(scene)
            assert all(process.alive(pid) for pid in alive)
    assert scene.noted("down")[0].split()[1] == "service"
    assert len(scene.noted("down")) == 3
    assert not any(process.alive(pid) for pid in alive)
    assert [(entry.state, entry.pid) for entry in scene.board.processes] == [("stopped", None)] * 3
    assert scene.said == []


@trio_test
async def test_a_block_that_is_cancelled_stops_from_the_inside_too(scene: Scene) -> None:
    """As by Ctrl-C: a service that loses its servers can't hand over, and waits for them in vain."""
    with trio.move_on_after(LIMIT_S) as block:
        async with supervised([scene.child("server")], scene.board):
            async with supervised([scene.child("service")], scene.board):
                alive = pids(scene)
                block.cancel()
                await trio.sleep_forever()
    assert [note.split()[1] for note in scene.noted("down")] == ["service", "server"]
    assert scene.states.index(("service", "stopped")) < scene.states.index(("server", "stopping"))
    assert not any(process.alive(pid) for pid in alive)


@trio_test
async def test_a_child_that_dies_is_restarted_and_said_so(scene: Scene) -> None:
    async with supervised([scene.child("one"), scene.child("two")], scene.board):
        first = scene.process("one").pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: "one is back" in scene.said)
        assert scene.process("one").pid not in (None, first)
        assert (scene.process("one").restarts, scene.process("one").state) == (1, "running")
        assert scene.process("two").restarts == 0
    assert scene.said[0].startswith("one was killed by SIGKILL; it is started again in ")
    assert scene.said[0].endswith(str(scene.folder / "one.log"))
    assert ("one", "restarting") in scene.states


@trio_test
async def test_a_child_is_restarted_as_often_as_it_dies(scene: Scene) -> None:
    """Its restarts fail at first; then it serves again."""
    flag = scene.folder / "fail"
    code = f"import os, sys\nif os.path.exists({str(flag)!r}): print('no luck'); sys.exit(7)\n{SERVING}"
    async with supervised([scene.child("one", code)], scene.board):
        flag.touch()
        pid = scene.process("one").pid
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        await until(lambda: sum("ended with exit code 7" in line for line in scene.said) >= 2)
        flag.unlink()
        await until(lambda: "one is back" in scene.said)
        assert scene.process("one").restarts >= 3
    assert scene.said[0].startswith("one ended with exit code 0; it is started again in 0.25 s; its log: ")
    assert scene.said[1].startswith(
        "one ended with exit code 7; it said: no luck; it is started again in 0.5 s"
    )


@trio_test
async def test_a_child_that_dies_before_it_is_ready_fails_the_start_and_ends_its_group(scene: Scene) -> None:
    with pytest.raises(StartError, match=r"bad ended with exit code 7 .*no such luck.* its log: .*bad\.log"):
        async with supervised([scene.child("good"), scene.child("bad", FAILING)], scene.board):
            raise AssertionError("the block must not run")
    assert [(entry.state, entry.pid) for entry in scene.board.processes] == [("stopped", None)] * 2


@trio_test
async def test_a_child_that_a_signal_kills_before_it_is_ready_is_tried_again(scene: Scene) -> None:
    with trio.fail_after(LIMIT_S):
        async with supervised([scene.child("second-life", ABORTING_ONCE)], scene.board):
            assert len(scene.noted("up")) == 1
    assert [line for line in scene.said if "SIGABRT" in line]
    always = "import os; os.abort()"
    with trio.fail_after(LIMIT_S), pytest.raises(StartError, match="hopeless was killed by SIGABRT"):
        async with supervised([scene.child("hopeless", always)], scene.board):
            pass


@trio_test
async def test_a_child_that_never_serves_is_killed_after_its_limit(scene: Scene) -> None:
    mute = replace(scene.child("mute", "import signal\nwhile True: signal.pause()"), ready_limit_s=0.1)
    with pytest.raises(StartError, match=r"mute did not serve within 0\.1 s"):
        async with supervised([mute], scene.board):
            raise AssertionError("the block must not run")


@trio_test
async def test_a_program_that_is_missing_fails_the_start(scene: Scene) -> None:
    missing = replace(scene.child("missing"), argv=(str(scene.folder / "nowhere"),))
    with pytest.raises(StartError, match=r"missing could not be started .*No such file"):
        async with supervised([missing], scene.board):
            raise AssertionError("the block must not run")


@trio_test
async def test_a_child_deaf_to_its_signal_is_killed_after_its_limit(scene: Scene) -> None:
    async with supervised([replace(scene.child("deaf", DEAF), stop_limit_s=0.1)], scene.board):
        [pid] = pids(scene)
    assert not process.alive(pid)
    assert scene.noted("down") == []


@trio_test
async def test_an_error_of_the_block_comes_out_alone_after_the_children_are_gone(scene: Scene) -> None:
    with pytest.raises(ZeroDivisionError):
        async with supervised([scene.child("server")], scene.board):
            async with supervised([scene.child("service")], scene.board):
                alive = pids(scene)
                raise ZeroDivisionError
    assert not any(process.alive(pid) for pid in alive)


@trio_test
async def test_a_start_that_is_cancelled_leaves_nobody(scene: Scene) -> None:
    mute = scene.child("mute", "import signal\nwhile True: signal.pause()")
    async with trio.open_nursery() as nursery:

        async def start() -> None:
            async with supervised([mute], scene.board):
                raise AssertionError("the block must not run")

        nursery.start_soon(start)
        await until(lambda: bool(pids(scene)))
        [pid] = pids(scene)
        nursery.cancel_scope.cancel()
    assert not process.alive(pid)


@trio_test
async def test_a_log_that_grew_too_large_moves_aside_at_the_next_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "LARGEST_LOG_BYTES", 3)
    (scene.folder / "one.log").write_text("long")
    async with supervised([scene.child("one")], scene.board):
        pass
    assert (scene.folder / "one.log.1").read_text() == "long"
    assert (scene.folder / "one.log").read_text() == ""


def test_the_delay_doubles_up_to_a_limit_and_starts_anew_after_a_long_life() -> None:
    delays = [FIRST_DELAY_S]
    for _ in range(10):
        delays.append(next_delay_s(delays[-1], served_s=0))
    assert delays[:4] == [0.25, 0.5, 1, 2]
    assert delays[-1] == LONGEST_DELAY_S
    assert next_delay_s(LONGEST_DELAY_S, served_s=PROVEN_AFTER_S) == FIRST_DELAY_S
