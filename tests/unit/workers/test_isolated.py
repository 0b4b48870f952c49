"""Isolated attempts in real processes: what comes back, each limit hit for real, what a child can't reach."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from trio.testing import trio_test

from shardwheel.errors import UsageError
from shardwheel.handler import Registry
from shardwheel.isolation import Limits
from shardwheel.wire import Outcome
from shardwheel.workers.isolated import ADDED_ENVIRONMENT, ENVIRONMENT, clean_environment
from tests.unit.workers.isolated_rig import isolating

ROOT = Path(__file__).parents[3]


def value(end: Any) -> Any:
    assert end.outcome is Outcome.SUCCEEDED, end
    return msgspec.json.decode(end.output)


@trio_test
async def test_a_value_comes_back_from_either_kind_of_handler() -> None:
    async with isolating() as rig:
        facts = value(await rig.call("facts", {"n": 1}))
        assert facts == {"task": "facts", "attempt": 3, "params": {"n": 1}, "has_time": True}
        assert value(await rig.call("async")) == {"at": 7}
        nothing = await rig.call("talk", {"lines": 0})
        assert (nothing.outcome, nothing.output) == (Outcome.SUCCEEDED, b"")


@trio_test
async def test_an_exception_comes_back_by_its_kind() -> None:
    async with isolating() as rig:
        later = await rig.call("raise", {"kind": "retryable"})
        assert (later.outcome, later.retry_after_ms) == (Outcome.RETRYABLE, 1000)
        assert (await rig.call("raise", {"kind": "fatal"})).outcome is Outcome.FATAL
        other = await rig.call("raise", {"kind": "a\0b"})
        assert (other.outcome, other.error_class) == (Outcome.FAILED, "ValueError")
        assert other.message == "with ab?"
        assert "in fail" in other.traceback
        assert (await rig.call("raise", {"kind": "exit"})).error_class == "SystemExit"
        soon = await rig.call("async", {"raise": True})
        assert (soon.outcome, soon.error_class, soon.retry_after_ms) == (Outcome.RETRYABLE, "Retryable", 2500)


@trio_test
async def test_cpu_time_is_limited_also_for_who_ignores_the_first_signal() -> None:
    async with isolating() as rig:
        end = await rig.call("burn", cpu_s=1)
        assert (end.outcome, end.error_class) == (Outcome.FAILED, "CpuLimitExceeded")
        assert "cpu_s=1" in end.message
        assert "in burn" in rig.desk.text, "the log says where it was"
        assert (await rig.call("burn", {"ignore": True}, cpu_s=1)).error_class == "CpuLimitExceeded"


@trio_test
async def test_memory_is_limited() -> None:
    async with isolating() as rig:
        end = await rig.call("hoard", memory_mb=64)
        assert (end.outcome, end.error_class) == (Outcome.FAILED, "MemoryLimitExceeded")
        assert "memory_mb=64" in end.message and "in hoard" in end.traceback


@trio_test
async def test_open_files_are_limited() -> None:
    async with isolating() as rig:
        end = await rig.call("open", open_files=20)
        assert (end.outcome, end.error_class) == (Outcome.FAILED, "OpenFilesLimitExceeded")
        assert "open_files=20" in end.message


@trio_test
async def test_output_is_kept_up_to_its_limit_and_the_handler_goes_on() -> None:
    async with isolating() as rig:
        assert (await rig.call("talk", {"lines": 5_000}, output_kb=2)).outcome is Outcome.SUCCEEDED
        texts = [text for _, text in rig.desk.said]
        assert texts[:2] == ["first", "second"]
        kept = sum(len(text) + 1 for text in texts[:-1])
        assert 2048 - 100 < kept <= 2048 + 1
        assert rig.desk.said[-1] == (
            "warning",
            f"… {5_000 * 100 + len('first/second/') - 2048} bytes more of output were dropped (output_kb=2)",
        )


@trio_test
async def test_a_child_that_dies_is_a_failed_attempt() -> None:
    async with isolating() as rig:
        crashed = await rig.call("die", {"signal": int(signal.SIGSEGV)})
        assert (crashed.outcome, crashed.error_class) == (Outcome.FAILED, "ChildDied")
        assert "SIGSEGV" in crashed.message
        killed = await rig.call("die", {"signal": int(signal.SIGKILL)})
        assert (killed.error_class, "SIGKILL" in killed.message) == ("ChildDied", True)
        assert "exit code 3" in (await rig.call("die", {"signal": 0})).message
        unspeakable = await rig.call("raise", {"kind": "unspeakable"})
        assert "exit code 1" in unspeakable.message and "not even as text" in rig.desk.text
        assert (await rig.call("garble")).error_class == "ChildDied"
        assert "no handler" in (await rig.call("absent")).message


@trio_test
async def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWHEEL_POSTGRES_DSN", "secret")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    async with isolating() as rig:
        environment = value(await rig.call("look"))["environment"]
    assert environment == clean_environment(os.environ)
    assert environment["TZ"] == "Europe/Berlin"
    assert set(environment) <= {*ENVIRONMENT, *ADDED_ENVIRONMENT}


@trio_test
async def test_no_file_is_inherited(tmp_path: Path) -> None:
    with socket.socket() as connection, (tmp_path / "open").open("w") as file:
        for descriptor in (connection.fileno(), file.fileno()):
            os.set_inheritable(descriptor, True)
        async with isolating() as rig:
            seen = value(await rig.call("look"))
    kinds = sorted(name.partition(":")[0] for name in seen["files"])
    assert kinds == ["/dev/null", "/dev/null", "pipe", "pipe", "socket"]
    assert seen["opened_at_import"] == "/dev/null"


@trio_test
async def test_a_child_has_a_session_and_no_privilege() -> None:
    async with isolating() as rig:
        seen = value(await rig.call("look"))
    assert seen["leads_session"]
    assert (seen["no_new_privileges"], int(seen["capabilities"], 16), seen["core_bytes"]) == ("1", 0, 0)


@trio_test
async def test_nobody_of_the_same_user_reads_an_attempts_memory() -> None:
    async with isolating() as rig:
        assert value(await rig.call("peep")) == "refused"
        assert value(await rig.call("look_at_self")) == "well\n"


@trio_test
async def test_a_network_of_its_own_leads_nowhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with isolating() as rig:
            assert value(await rig.call("connect", {"port": port}, network=True)) == "connected"
            alone = value(await rig.call("connect", {"port": port}))
            if rig.isolation.warnings:
                pytest.skip(f"this system allows no network namespace: {rig.isolation.warnings}")
            assert alone == errno.errorcode[errno.ENETUNREACH]


@trio_test
async def test_ctx_reaches_the_worker_and_only_by_the_desks_operations() -> None:
    async with isolating() as rig:
        before, after, refused = value(await rig.call("desk"))
    assert (before, after) == (None, [1, 2])
    assert refused.startswith("UsageError: operation: 'leave' is not one of")
    assert rig.desk.percent == [(50, "half")]
    assert rig.desk.said == [("warning", "slow seconds=3")]


@trio_test
async def test_a_task_in_a_child_reads_what_its_parents_left() -> None:
    async with isolating() as rig:
        assert value(await rig.call("inputs")) == [{"a": [1], "b": None}, ["b"]]


@trio_test
async def test_secrets_are_blotted_out_of_whatever_a_child_says() -> None:
    async with isolating() as rig:
        told = await rig.call("betray", {"key": "opensesame"}, known=("opensesame",))
        failed = await rig.call("betray", {"key": "opensesame", "fail": True}, known=("opensesame",))
    assert value(told) == {"key": "[secret]"}
    assert failed.message == "[secret]" and "opensesame" not in failed.traceback
    assert sorted(rig.desk.text.splitlines()) == ["logged [secret]"] * 2 + ["printed [secret]"] * 2


@trio_test
async def test_only_root_may_name_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="only root") as caught:
        async with isolating(user="nobody"):
            pass
    assert caught.value.field == "isolated_user"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@trio_test
async def test_root_may_let_children_be_another_user() -> None:
    async with isolating(user="nobody") as rig:
        seen = value(await rig.call("look"))
    nobody = pwd.getpwnam("nobody")
    assert (seen["user"], seen["environment"]["HOME"]) == (nobody.pw_uid, nobody.pw_dir)


def test_a_fork_server_imports_nothing_that_connects_or_has_threads() -> None:
    heavy = ("numpy", "trio", "psycopg", "confluent_kafka", "structlog", "pickle")
    code = f"import sys, shardwheel.workers.forkserver; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    assert shown.stdout.strip() == "[]"


def test_a_handler_with_limits_is_isolated() -> None:
    registry = Registry()
    registry.add("a", lambda ctx, params: None, "short", None, Limits(cpu_s=1))
    registry.add("b", lambda ctx, params: None, "short", None)
    assert [one.task for one in registry.isolated] == ["a"]
