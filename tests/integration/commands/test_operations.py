"""docs/operations.md, rebalance.md and upgrade.md, command by command, on three real shards; and what the
commands answer when refused."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest
from typer.testing import CliRunner

from shardwheel.cli import app, exit_code_of
from shardwheel.compose.etcd import EtcdServer
from shardwheel.compose.kafka import KafkaServer
from shardwheel.errors import ShardwheelError
from shardwheel.posting import parse_posting
from shardwheel.store.jobs import create_jobs
from tests.pages import blocks_of

pytestmark = pytest.mark.servers
ROOT = Path(__file__).parents[3]
LIMIT_S = 180.0
JOBS = 300
PAGES = ("docs/operations.md", "docs/rebalance.md", "docs/upgrade.md")


class Answer(NamedTuple):
    code: int
    text: str

    @property
    def value(self) -> Any:
        return msgspec.json.decode(self.text)


class Shards:
    """Three shards, and commands on them: those in this process, which spares a second of imports each."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self.environment = environment
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, **more: str) -> subprocess.Popen[bytes]:
        clean = {name: value for name, value in os.environ.items() if "SHARDWHEEL" not in name}
        with (self._folder / f"shard-{len(self.processes)}.log").open("wb") as log:
            command = [sys.executable, "-m", "shardwheel.cli", "shard"]
            environment = clean | self.environment | more
            process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def say(self, *arguments: str) -> Answer:
        answer = CliRunner().invoke(app, list(arguments), env=self.environment)
        if isinstance(answer.exception, ShardwheelError):
            return Answer(exit_code_of(answer.exception), str(answer.exception))
        return Answer(answer.exit_code, answer.stdout)

    def asked(self, *arguments: str) -> Any:
        answer = self.say(*arguments, "-o", "json")
        assert answer.code == 0, answer.text
        return answer.value

    def id_of(self, process: subprocess.Popen[bytes]) -> str:
        """A shard's name holds its process's number."""
        names: list[str] = [row["id"] for row in self.asked("shard", "list")]
        return next(name for name in names if name.split("-")[-2] == str(process.pid))

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        give_up_at_s = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < give_up_at_s, f"{what}: not within {LIMIT_S:g} s\n{self._logs()}"
            time.sleep(0.5)

    def wait_level(self, count: int) -> None:
        """All of them own their share, and nothing is on its way."""

        def level() -> bool:
            owned = [row["partitions"] for row in self.asked("shard", "list")]
            return len(owned) == count and sum(owned) == 256 and max(owned) - min(owned) <= 1

        self.wait(f"{count} shards own their share", level)
        self.wait("it stands still", lambda: self.asked("rebalance", "status")["state"] in ("ready", "off"))

    def _logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-12:])
            for path in sorted(self._folder.glob("*.log"))
        )

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(LIMIT_S)


@pytest.fixture
def shards(
    tmp_path: Path, migrated_database: str, etcd_server: EtcdServer, own_kafka: Callable[[], KafkaServer]
) -> Iterator[Shards]:
    environment = {
        "SHARDWHEEL_POSTGRES_DSN": migrated_database,
        "SHARDWHEEL_ETCD_ENDPOINTS": etcd_server.address,
        "SHARDWHEEL_KAFKA_BOOTSTRAP": own_kafka().bootstrap,
        "SHARDWHEEL_CLUSTER": f"operations-{uuid.uuid4().hex[:8]}",
        "SHARDWHEEL_TOPIC_PARTITIONS": "2",
        # A busy machine must not look like a dead shard.
        "SHARDWHEEL_LEASE_TTL_S": "20",
    }
    found = Shards(tmp_path, environment)
    yield found
    found.close()


def test_every_command_of_the_pages_for_operators(shards: Shards) -> None:
    with psycopg.connect(shards.environment["SHARDWHEEL_POSTGRES_DSN"]) as conn:
        create_jobs(conn, "default", [parse_posting({"task": "t", "every": "1h"})] * JOBS)
    for _ in range(3):
        shards.start()
    shards.wait_level(3)
    check_refusals(shards)
    ran = 0
    for page in PAGES:
        for block in blocks_of(page, (ROOT / page).read_text()):
            for step in block.steps:
                run_line(shards, step.command, service=block.stays)
                ran += 1
    assert ran >= 25
    # Two were added, one was stopped: those that are left own all of it.
    shards.wait_level(len([process for process in shards.processes if process.poll() is None]))


def run_line(shards: Shards, line: str, *, service: bool) -> None:
    victim = shards.processes[0]
    words = [word.replace("$PID", str(victim.pid)) for word in shlex.split(line)]
    if service:
        settings = dict(word.split("=") for word in words if "=" in word)
        assert words[len(settings) :] == ["shardctl", "shard"], line
        shards.start(**settings)
        shards.wait_level(len(shards.processes))
    elif words[0] == "kill":
        assert words == ["kill", "-TERM", str(victim.pid)]
        victim.send_signal(signal.SIGTERM)
        assert victim.wait(LIMIT_S) == 0
    else:
        assert words[0] == "shardctl", line
        shard_id = shards.id_of(victim) if "$SHARD" in line else ""
        words = [word.replace("$SHARD", shard_id) for word in words[1:]]
        answer = shards.say(*words)
        assert answer.code == 0, f"{line}: {answer}"
        check_effect(shards, words, shard_id)


def check_effect(shards: Shards, words: list[str], shard_id: str) -> None:
    """What each command promises to have done when it returns, or soon after."""
    match words:
        case ["shard", "drain", *_]:
            drained = shards.asked("shard", "show", shard_id)
            assert (drained["state"], drained["partitions"]) == ("draining", [])
            assert shards.say("shard", "drain", next_to(shards, shard_id)).code == 4
        case ["shard", "undrain", *_] | ["rebalance", "--wait"]:
            shards.wait_level(len(shards.asked("shard", "list")))
        case ["rebalance", "auto", switch]:
            assert shards.asked("rebalance", "status")["automatic"] is (switch == "on")
        case ["rebalance", "--dry-run"]:
            planned = shards.asked("rebalance", "--dry-run")
            assert planned["partitions"] == len(planned["moves"]) == 0
        case ["partition", "move", number, *_]:
            row = shards.asked("partition", "list")[int(number)]
            assert (row["owner"], row["pin"]) == (shard_id, shard_id)
        case ["replay", *_]:
            wait_fired_on(shards)


def next_to(shards: Shards, shard_id: str) -> str:
    others: list[str] = [row["id"] for row in shards.asked("shard", "list") if row["id"] != shard_id]
    return others[0]


def wait_fired_on(shards: Shards) -> None:
    """Every owner was refused, took its partitions anew and fires on from where they were set back to."""
    shards.wait("every partition is fired on", lambda: max(behind_s(shards)) < 30)


def behind_s(shards: Shards) -> list[float]:
    """One that was set back to the beginning of time counts as endlessly behind."""
    return [row["behind_s"] or float("inf") for row in shards.asked("partition", "list")]


def check_refusals(shards: Shards) -> None:
    """Exit codes: 2 wrong usage, 3 not found, 4 refused, 5 out of reach."""
    shard_id = shards.asked("shard", "list")[0]["id"]
    assert shards.say("shard", "show", "nobody").code == 3
    assert shards.say("shard", "drain", "nobody").code == 3
    assert shards.say("partition", "move", "17", "--to", "nobody").code == 3
    assert shards.say("partition", "move", "256", "--to", shard_id).code == 2
    assert shards.say("partition", "move", "17").code == 2
    assert shards.say("replay", "--since", "2199-01-01T00:00:00Z", "--yes").code == 2
    assert shards.say("replay", "--since", "floor").code == 4
    rows = shards.asked("partition", "list")
    assert sum(row["jobs"] for row in rows) == JOBS
    assert {row["state"] for row in rows} == {"owned"}
    away = dict(shards.environment, SHARDWHEEL_ETCD_ENDPOINTS="127.0.0.1:9")
    error = CliRunner().invoke(app, ["shard", "list"], env=away).exception
    assert isinstance(error, ShardwheelError) and exit_code_of(error) == 5
