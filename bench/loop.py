"""A shard, a worker and a result processor as real processes, and rounds of jobs that run through them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from shardwheel.bench.embedded import Servers
from shardwheel.bench.measure import Latencies, cpu_s, resident_bytes
from shardwheel.bench.stored import once_entries, store
from shardwheel.store.jobs import read_now_ms

LIMIT_S: Final = 600.0
_STOP_S: Final = 30.0
_ROLES: Final = ("shard", "worker", "results")
# By id, which begins with the time: looking at the progress should cost the database little.
_PROGRESS: Final = b"""
SELECT count(*) FILTER (WHERE state = 'succeeded'), shardwheel.ms(max(ended_at))
  FROM shardwheel.executions
 WHERE execution_id >= shardwheel.id_floor(shardwheel.at(%s))
   AND execution_id < shardwheel.id_floor(shardwheel.at(%s + 1))"""
# How often to look: often only while somebody is to be killed.
_LOOK_S, _LOOK_CLOSELY_S = 0.4, 0.1
_LATENCIES: Final = b"""
SELECT extract(epoch FROM ended_at - due_at)::float8 * 1000
  FROM shardwheel.executions WHERE scheduled_at BETWEEN shardwheel.at(%s) AND shardwheel.at(%s)"""
# An execution has one row; what ran to a good end twice has two such attempts.
_DOUBLED: Final = b"""
SELECT count(*) FROM (SELECT execution_id FROM shardwheel.attempts WHERE outcome = 'succeeded'
                       GROUP BY execution_id HAVING count(*) > 1) AS twice"""


class Round:
    """Jobs that were due in one stretch of time, and how long the last of them took."""

    def __init__(self, count: int, first_ms: int, last_ms: int) -> None:
        self.count = count
        self.span = (first_ms, last_ms)
        self.took_s = 0.0
        self.killed: list[str] = []


class Loop:
    def __init__(self, folder: Path, dsn: str, environment: dict[str, str]) -> None:
        self._folder = folder
        self._dsn = dsn
        self._environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._options: dict[str, tuple[str, ...]] = {}
        self._rounds = 0

    def start(self, role: str, *options: str) -> None:
        """Start a process; with the same options again, should it end by itself."""
        options = self._options.setdefault(role, options)
        with (self._folder / f"{role}.log").open("ab") as log:
            self._processes[role] = subprocess.Popen(
                [sys.executable, "-m", "shardwheel.cli", role, *options],
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    def kill(self, role: str) -> None:
        self._processes[role].kill()
        self._processes[role].wait()

    def pid(self, role: str) -> int:
        return self._processes[role].pid

    def resident_bytes(self, role: str) -> int:
        return resident_bytes(self.pid(role))

    def cpu_s(self, role: str) -> float:
        """CPU time of the process so far."""
        return cpu_s(self.pid(role))

    def stop(self) -> None:
        """End all processes by their own way down: a shard hands over, a worker finishes what it holds."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(_STOP_S)

    def close(self) -> None:
        for role in self._processes:
            self.kill(role)

    def play(self, offsets_ms: Iterable[int], kill: Iterable[str] = ()) -> Round:
        """Store jobs that are due at these offsets from a moment soon, and wait until all have succeeded."""
        offsets = list(offsets_ms)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            # Storing with triggers and the shard's next read must be over when the first one is due.
            due_ms = read_now_ms(connection) + 3_000 + len(offsets) // 2
            self._rounds += 1
            store(self._dsn, once_entries((due_ms + at for at in offsets), self._rounds), triggers=True)
            played = Round(len(offsets), due_ms + min(offsets), due_ms + max(offsets))
            doomed = list(kill)
            deadline_s = time.monotonic() + LIMIT_S
            while (done := self._succeeded(connection, played)) < played.count:
                if doomed and done >= played.count // 10:
                    played.killed.append(doomed.pop(0))
                    self.kill(played.killed[-1])
                    self.start(played.killed[-1])
                self._supervise()
                if time.monotonic() > deadline_s:
                    break
                time.sleep(_LOOK_CLOSELY_S if doomed else _LOOK_S)
        return played

    def _succeeded(self, connection: psycopg.Connection[Any], played: Round) -> int:
        ((succeeded, ended_ms),) = connection.execute(_PROGRESS, played.span)
        played.took_s = ((ended_ms or played.span[0]) - played.span[0]) / 1000
        return int(succeeded)

    def _supervise(self) -> None:
        for role, process in list(self._processes.items()):
            if process.poll() is not None:
                self.start(role)

    def lost(self, played: Round) -> int:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            return played.count - self._succeeded(connection, played)

    def doubled(self) -> int:
        with psycopg.connect(self._dsn) as connection:
            ((count,),) = connection.execute(_DOUBLED)
            return int(count)

    def latencies(self, played: Round) -> Latencies:
        latencies = Latencies()
        with psycopg.connect(self._dsn) as connection:
            for (latency_ms,) in connection.execute(_LATENCIES, played.span):
                latencies.record(latency_ms)
        return latencies


@contextmanager
def open_loop(servers: Servers, worker: Sequence[str] = (), **environment: str) -> Iterator[Loop]:
    """`worker`: options of the worker. What is given of the environment wins."""
    with tempfile.TemporaryDirectory(prefix="shardwheel-bench-") as folder:
        loop = Loop(Path(folder), servers.dsn, loop_environment(servers) | environment)
        try:
            for role in _ROLES:
                loop.start(role, *(worker if role == "worker" else ()))
            yield loop
        finally:
            loop.close()


def loop_environment(servers: Servers) -> dict[str, str]:
    """What the processes are told: these servers, and nothing of what the user has set."""
    return {name: value for name, value in os.environ.items() if "SHARDWHEEL" not in name} | {
        "SHARDWHEEL_POSTGRES_DSN": servers.dsn,
        "SHARDWHEEL_ETCD_ENDPOINTS": servers.etcd,
        "SHARDWHEEL_KAFKA_BOOTSTRAP": servers.kafka,
        "SHARDWHEEL_CLUSTER": "bench",
        "SHARDWHEEL_HANDLERS": "shardwheel.bench.noop",
        # A busy machine must not look like a dead shard.
        "SHARDWHEEL_LEASE_TTL_S": "10",
    }
