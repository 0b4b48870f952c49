"""How isolated attempts are ended: whole, whoever dies and however far away a descendant went."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import trio_test

from shardwheel.errors import UsageError
from shardwheel.service import Health
from shardwheel.wire import Outcome
from shardwheel.workers.isolated import Isolation
from tests.unit.workers.isolated_rig import LIMIT_S, IsolatedRig, Watched, isolating

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def calling(rig: IsolatedRig, task: str, grace_s: float) -> AsyncIterator[None]:
    """The task runs meanwhile, and is stopped at the end of the block."""
    async with trio.open_nursery() as nursery:

        async def call() -> None:
            await rig.call(task, grace_s=grace_s)
            raise AssertionError("it should have been stopped")

        nursery.start_soon(call)
        yield
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_stubborn_attempt_is_killed_with_all_that_it_started() -> None:
    async with isolating() as rig:
        async with calling(rig, "family", grace_s=0.1):
            who = await rig.people()
            watched = Watched([who["child"], *who["others"]])
        with watched:
            assert watched.are_gone(0), "the call returned when nothing was left"


@trio_test
async def test_an_attempt_that_is_over_leaves_nothing_behind() -> None:
    async with isolating() as rig:
        ended = await rig.call("leave.one.behind")
        assert ended.outcome is Outcome.SUCCEEDED
        assert not Path(f"/proc/{ended.output.decode()}").exists(), "its keeper has seen it end"


@pytest.mark.parametrize("task", ["polite", "polite.async"])
@trio_test
async def test_a_polite_attempt_has_its_grace(task: str) -> None:
    async with isolating() as rig:
        async with calling(rig, task, grace_s=LIMIT_S):
            assert await rig.desk.lines.receive() == "ready"
        assert "tidied up" in rig.desk.text


@trio_test
async def test_a_keeper_ends_what_its_worker_should_have_ended() -> None:
    async with isolating() as rig:
        end = await rig.call("family", timeout_s=0.1, grace_s=0.1)
        assert end.outcome is Outcome.TIMED_OUT
        who = await rig.people()
        assert not any(Path(f"/proc/{pid}").exists() for pid in who["others"])


async def _hold() -> None:
    """What the worker of the next test does, in a process of its own, for as long as it lives."""
    async with isolating() as rig, calling(rig, "family", grace_s=LIMIT_S):
        print(json.dumps(await rig.people()), flush=True)
        await trio.sleep_forever()


def test_a_worker_killed_with_9_leaves_nothing() -> None:
    code = f"import trio; from {__name__} import _hold; trio.run(_hold)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        who: dict[str, Any] = json.loads(worker.stdout.readline())
        server = _parent(who["keeper"])
        ready = [pid for keeper in _children(server) for pid in (keeper, *_children(keeper))]
        with Watched([worker.pid, server, *ready, *who["others"]]) as watched:
            assert {who["keeper"], who["child"]} < set(ready), "others are kept ready"
            worker.kill()
            assert watched.are_gone()


@trio_test
async def test_attempts_outlive_their_fork_server_and_the_next_get_another(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ended: list[Any] = []
    async with isolating() as rig:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                ended.append(await rig.call("wait", {"pipe": str(pipe)}))

            nursery.start_soon(wait)
            who = await rig.people()
            os.kill(who["server"], signal.SIGKILL)
            while rig.health.parts["isolation"] is None:
                await trio.sleep(0.01)
            other = await rig.call("parent")
            assert int(other.output) != who["server"]
            await trio.to_thread.run_sync(pipe.write_text, "go")
        assert (ended[0].outcome, ended[0].output) == (Outcome.SUCCEEDED, b'"go"')
        assert rig.health.parts == {"isolation": None}


@trio_test
async def test_a_killed_keeper_fails_its_attempt_and_leaves_nothing() -> None:
    ended: list[Any] = []
    async with isolating() as rig, trio.open_nursery() as nursery:

        async def call() -> None:
            ended.append(await rig.call("family"))

        nursery.start_soon(call)
        who = await rig.people()
        with Watched([who["child"], *who["others"]]) as watched:
            os.kill(who["keeper"], signal.SIGKILL)
            assert await trio.to_thread.run_sync(watched.are_gone)
    assert (ended[0].outcome, ended[0].error_class) == (Outcome.FAILED, "ChildDied")


@trio_test
async def test_a_child_that_died_while_it_waited_costs_no_attempt() -> None:
    async with isolating() as rig:
        server = int((await rig.call("parent")).output)
        for child in [child for keeper in _children(server) for child in _children(keeper)]:
            os.kill(child, signal.SIGKILL)
        assert (await rig.call("facts")).outcome is Outcome.SUCCEEDED


@trio_test
async def test_a_module_that_cant_be_imported_stops_the_worker_with_the_reason() -> None:
    isolation = Isolation("there_is_no_such_module", Health())
    with pytest.raises(UsageError, match="there_is_no_such_module") as caught:
        await isolation.run()
    assert caught.value.field == "isolated"


@trio_test
async def test_without_a_fork_server_attempts_wait_and_have_not_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second one can't be had: its interpreter is not there any more."""
    async with isolating() as rig:
        before = await rig.call("parent")
        monkeypatch.setattr("sys.executable", str(tmp_path / "gone"))
        os.kill(int(before.output), signal.SIGKILL)
        while "can't be started" not in (rig.health.parts["isolation"] or ""):
            await trio.sleep(0.01)
        with trio.move_on_after(0.1) as limit:
            await rig.call("facts")
        assert limit.cancelled_caught
        monkeypatch.undo()
        assert (await rig.call("facts")).outcome is Outcome.SUCCEEDED


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
