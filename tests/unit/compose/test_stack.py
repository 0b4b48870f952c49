"""How a running stack is found, and when it is not believed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from shardwheel.compose.stack import (
    birth_of,
    default_folder,
    last_stack,
    make_folder,
    require_stack,
    running_stack,
    secret_of,
    sole_supervisor,
    write_stack,
)
from shardwheel.compose.state import Process
from shardwheel.errors import ConflictError, NotFoundError, UsageError


def row(pid: int | None) -> Process:
    return Process("etcd", "etcd", pid, "127.0.0.1:1", "/log")


def test_a_running_stack_is_found_with_its_settings_and_processes(tmp_path: Path) -> None:
    write_stack(tmp_path, {"secret": "s"}, [row(os.getpid()), row(None)])
    stack = running_stack(tmp_path)
    assert stack is not None
    assert stack.settings == {"secret": "s"}
    assert stack.processes == [row(os.getpid()), row(None)]
    assert stack.alive() == [os.getpid()]
    assert stat.S_IMODE((tmp_path / "stack.json").stat().st_mode) == 0o600


def test_the_default_folder_follows_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "shardwheel" / "dev"
    assert running_stack(None) is None
    write_stack(make_folder(default_folder()), {}, [])
    assert running_stack(None) is not None


def test_a_dead_supervisor_and_a_recycled_pid_are_not_believed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        birth = birth_of(child.pid)
        write_stack(tmp_path, {}, [row(child.pid)])
        stack = last_stack(tmp_path)
        assert stack is not None
        dead = msgspec.structs.replace(stack, pid=child.pid, births={child.pid: birth})
        recycled = msgspec.structs.replace(stack, births={os.getpid(): birth})
        assert dead.is_running
        assert not recycled.is_running
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not dead.is_running, "a zombie is dead"
    assert not dead.is_running
    assert stack.alive() == [os.getpid()]


def test_a_file_of_another_version_is_no_running_stack(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"format": 99}')
    assert running_stack(tmp_path) is None


def test_no_stack_is_not_found_and_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=rf"start one with `shardctl dev --data {tmp_path}`"):
        require_stack(tmp_path)


def test_a_second_supervisor_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    with sole_supervisor(tmp_path):
        with pytest.raises(ConflictError, match="shardctl dev stop --data"):
            with sole_supervisor(tmp_path):
                raise AssertionError("two supervisors on one folder")
    with sole_supervisor(tmp_path):
        pass


def test_the_secret_stays_the_same_and_private(tmp_path: Path) -> None:
    secret = secret_of(tmp_path)
    assert len(secret) >= 32
    assert secret_of(tmp_path) == secret
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_a_folder_that_can_t_be_made_says_why_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Not a directory; a file is in the way"):
        make_folder(tmp_path / "file" / "data")
