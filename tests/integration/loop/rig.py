"""The loop on real servers: shard, worker and result processor as processes, as in production.

A test kills, freezes and restarts what it likes; whatever it does, every process is ended afterwards. Every
wait has a limit that only a broken loop reaches. As in production somebody supervises: a process that dies
by itself is started again (Kafka's driver aborts its process now and then when a broker vanishes in the
middle of an admin request: `rd_kafka_enq_once_del_source_return: Assertion failed`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from shardwheel.posting import parse_posting
from shardwheel.store.arrays import Uuid
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import create_jobs, get_job

LIMIT_S = 300.0
_TLS = Path(__file__).parents[2] / "contract" / "tls"


class Loop:
    # How often a wait looks.
    LOOK_S = 0.05

    def __init__(
        self, folder: Path, dsn: str, etcd: str, kafka: str, cluster: str, **environment: str
    ) -> None:
        self._folder = folder
        self._dsn = dsn
        self._environment = (
            {name: value for name, value in os.environ.items() if "SHARDWHEEL" not in name}
            | {
                "SHARDWHEEL_POSTGRES_DSN": dsn,
                "SHARDWHEEL_ETCD_ENDPOINTS": etcd,
                "SHARDWHEEL_KAFKA_BOOTSTRAP": kafka,
                "SHARDWHEEL_CLUSTER": cluster,
                "SHARDWHEEL_TOPIC_PARTITIONS": "2",
                "SHARDWHEEL_HANDLERS": "tests.integration.loop.handlers",
                # Pokes between real processes go over TLS here.
                "SHARDWHEEL_DOOR_CA": str(_TLS / "ca.pem"),
                "SHARDWHEEL_DOOR_CERT": str(_TLS / "server.pem"),
                "SHARDWHEEL_DOOR_KEY": str(_TLS / "server.key"),
                # A busy machine must not look like a dead shard.
                "SHARDWHEEL_LEASE_TTL_S": "10",
            }
            | environment
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        self._supervised: dict[str, subprocess.Popen[bytes]] = {}
        self._roles: dict[str, str] = {}
        # By a process's name: settings of its own, such as another way to a server.
        self.routes: dict[str, dict[str, str]] = {}

    # --- processes -----------------------------------------------------------------------------------

    def start(self, role: str, name: str = "") -> subprocess.Popen[bytes]:
        """Start a process. It is supervised under its name: that of its role, where there is one of these."""
        name = name or role
        log = self._folder / f"{name}-{len(self._processes)}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, *self._command(role)],
                env=self._environment | self.routes.get(name, {}),
                cwd=Path(__file__).parents[3],
                stdout=stream,
                stderr=stream,
            )
        self._processes.append(process)
        self._supervised[name] = process
        self._roles[name] = role
        return process

    def _command(self, role: str) -> list[str]:
        return ["-m", "shardwheel.cli", *role.split()]

    def start_all(self) -> tuple[subprocess.Popen[bytes], ...]:
        return tuple(self.start(role) for role in ("shard", "worker", "results"))

    def _supervise(self) -> None:
        for name, process in list(self._supervised.items()):
            if process.poll() is not None:
                self.start(self._roles[name], name)

    def _meanwhile(self) -> None:
        """What goes on while a test waits."""
        self._supervise()

    def end(self, process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL) -> int:
        """End one for good: nobody starts it again."""
        self._supervised = {name: known for name, known in self._supervised.items() if known is not process}
        process.send_signal(number)
        return process.wait(LIMIT_S)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(LIMIT_S)

    def logs(self) -> str:
        """What a failed wait shows: the last words of everybody."""
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-8:])
            for path in sorted(self._folder.glob("*.log"))
        )

    # --- tables --------------------------------------------------------------------------------------

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True)

    def create(self, task: str, **fields: Any) -> JobRow:
        with self.connect() as conn:
            (job_id,) = create_jobs(conn, "default", [parse_posting({"task": task} | fields)])
            return get_job(conn, "default", job_id)

    def executions(self, job: JobRow) -> list[dict[str, Any]]:
        with self.connect() as conn:
            cursor = conn.cursor(row_factory=psycopg.rows.dict_row)
            return cursor.execute(
                """SELECT *, shardwheel.ms(scheduled_at) AS at_ms
                     FROM shardwheel.executions WHERE job_id = %s ORDER BY execution_id""",
                [Uuid(job.job_id)],
            ).fetchall()

    def states(self, job: JobRow) -> list[str]:
        return [row["state"] for row in self.executions(job)]

    def count(self, job: JobRow, state: str = "succeeded") -> int:
        return self.states(job).count(state)

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while True:
            self._meanwhile()
            try:
                if condition():
                    return
            except psycopg.OperationalError:
                pass  # The test took PostgreSQL away.
            assert time.monotonic() < deadline, f"{what}: did not happen within {LIMIT_S:g} s\n{self.logs()}"
            time.sleep(self.LOOK_S)

    def check_whole(self, job: JobRow) -> None:
        """Every time of the schedule up to the last one that ran runs: none is lost, and no other time has
        run. (None is doubled: the execution id, computed from the time, is the primary key.) One that ran
        beside others may be settled a moment after them, hence the wait."""
        last_ms = max(self._done(job))
        expected = list(job.timing.times_between(job.effective_from_ms - 1, last_ms))
        self.wait("every time has run", lambda: set(self._done(job)) >= set(expected))
        assert [at_ms for at_ms in self._done(job) if at_ms <= last_ms] == expected

    def _done(self, job: JobRow) -> list[int]:
        return [row["at_ms"] for row in self.executions(job) if row["state"] == "succeeded"]
