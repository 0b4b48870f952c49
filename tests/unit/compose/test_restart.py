"""Which services `dev restart` means, and when they are back: by what stack.json says of them."""

from __future__ import annotations

import os

import pytest

from shardwheel.compose.restart import not_yet_back, restart_services, services_of
from shardwheel.compose.stack import Stack, birth_of
from shardwheel.compose.state import Process
from shardwheel.errors import NotFoundError, ShardwheelError


def stack(*processes: Process) -> Stack:
    births = {row.pid: "gone" for row in processes if row.pid is not None}
    return Stack(
        data="/tmp/x",
        pid=os.getpid(),
        births=births | {os.getpid(): birth_of(os.getpid())},
        settings={},
        processes=[*processes],
    )


def row(name: str, pid: int | None, state: str = "running", restarts: int = 0) -> Process:
    return Process(name.partition("-")[0], name, pid, "", "", state, restarts)


def test_a_role_or_one_of_it_but_never_a_server() -> None:
    there = stack(row("postgres", 1), row("worker-short-1", 2), row("worker-long-1", 3), row("shard-1", 4))
    assert list(services_of(there, "worker")) == ["worker-short-1", "worker-long-1"]
    assert list(services_of(there, "shard-1")) == ["shard-1"]
    for name in ("postgres", "supervisor", "nobody"):
        with pytest.raises(NotFoundError, match="it has: worker, shard"):
            services_of(there, name)


@pytest.mark.parametrize(
    ("now", "late"),
    [
        (row("worker-1", 5), ["worker-1"]),
        (row("worker-1", None, "restarting"), ["worker-1"]),
        (row("worker-1", 6, "starting", 1), ["worker-1"]),
        (row("worker-1", 6, "running", 1), []),
    ],
)
def test_it_is_back_as_another_process_that_runs(now: Process, late: list[str]) -> None:
    assert not_yet_back({"worker-1": row("worker-1", 5)}, stack(now)) == late


def test_one_that_dies_again_is_not_waited_for() -> None:
    looks = iter([stack(row("worker-1", 5)), stack(row("worker-1", None, "restarting", 2))])
    with pytest.raises(ShardwheelError, match="worker-1 does not come up: see `shardctl dev logs worker-1`"):
        restart_services(lambda: next(looks), "worker", 60)


def test_all_that_are_back_are_named() -> None:
    looks = iter([stack(row("worker-1", 5)), stack(row("worker-1", 6, restarts=1))])
    assert restart_services(lambda: next(looks), "worker", 60) == ["worker-1"]
