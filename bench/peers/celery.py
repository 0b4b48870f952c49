"""Celery without a further server: the SQLAlchemy broker on PostgreSQL (kombu calls it experimental), two
forked workers, a prefetch of 128 as its guide advises for short tasks, results ignored; beat for recurring
jobs.

Run as a module it is its own command line: `worker` or `beat`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer, Place
from shardwheel.bench.peers.work import Once, Plan

_DSN, _PLANS = "BENCH_DSN", "BENCH_PLANS"
_READY = "worker-ready"
_WORKER = ("worker", "--pool=prefork", "--concurrency=2", "--without-gossip", "--without-mingle")


class OnPostgres(Peer):
    package = "celery"
    settings = "sqla broker, prefork 2, prefetch 128, polls each second (its only way), results ignored; beat"
    declares = True

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._children: list[subprocess.Popen[bytes]] = []

    def serve(self, plans: Sequence[Plan]) -> None:
        (self.place.folder / "plans").write_bytes(msgspec.msgpack.encode(plans))
        (self.place.folder / _READY).unlink(missing_ok=True)
        self._begin(*_WORKER, "--loglevel=ERROR")
        self._begin("beat", f"--schedule={self.place.folder / 'beat'}", "--loglevel=ERROR", "--pidfile=")
        # The worker says when it listens; beat writes its schedule down once it has merged all of it.
        while not ((self.place.folder / _READY).exists() and _beat_wrote(self.place.folder)):
            if any(child.poll() is not None for child in self._children):
                raise RuntimeError("Celery's worker or beat ended instead of getting ready")
            time.sleep(0.02)

    def _begin(self, *arguments: str) -> None:
        environment = os.environ | {
            _DSN: self.place.dsn,
            _PLANS: str(self.place.folder / "plans"),
            "C_FORCE_ROOT": "1",
        }
        command = [sys.executable, "-m", __name__, *arguments]
        with (self.place.folder / f"{arguments[0]}.log").open("ab") as log:
            self._children.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def pids(self) -> list[int]:
        """Beat's: it holds the schedules."""
        return [self._children[1].pid]

    def close(self) -> None:
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait()

    def add_once(self, jobs: Sequence[Once]) -> None:
        run = _app(self.place.dsn).tasks["run"]
        for job in jobs:
            run.apply_async((job.number,), eta=datetime.fromtimestamp(job.due_s, UTC))

    def enqueue(self, numbers: Sequence[int]) -> None:
        run = _app(self.place.dsn).tasks["run"]
        for number in numbers:
            run.apply_async((number,))

    def unfinished(self) -> int:
        with psycopg.connect(self.place.dsn) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM kombu_message WHERE visible")
            return int(count)


def _beat_wrote(folder: Path) -> bool:
    """Whichever dbm this Python has: some write `beat`, some `beat.db`."""
    return any(path.name in ("beat", "beat.db", "beat.dat") for path in folder.iterdir())


_APPS: dict[str, Any] = {}


def _app(dsn: str) -> Any:
    if dsn not in _APPS:
        _APPS[dsn] = _make(dsn)
    return _APPS[dsn]


def _make(dsn: str) -> Any:
    from celery import Celery

    app = Celery("bench", broker=dsn.replace("postgresql:", "sqla+postgresql+psycopg:", 1))
    app.conf.update(
        task_ignore_result=True,
        worker_prefetch_multiplier=128,
        worker_hijack_root_logger=False,
        timezone="UTC",
        enable_utc=True,
    )

    @app.task(name="run")  # type: ignore[untyped-decorator]
    def run(number: int) -> None:
        started(number)

    return app


def _entry(plan: Plan, now_s: float) -> dict[str, Any]:
    """Due a period after it "ran last", so that each keeps to its own moment."""
    last = datetime.fromtimestamp(plan.next_s(now_s) - plan.period_s, UTC)
    schedule = timedelta(seconds=plan.period_s)
    return {"task": "run", "schedule": schedule, "args": (plan.number,), "last_run_at": last}


def _say_ready(**_: Any) -> None:
    (Path(os.environ[_PLANS]).parent / _READY).touch()


def _main(arguments: list[str]) -> None:
    app = _app(os.environ[_DSN])
    if arguments[0] == "beat":
        plans = msgspec.msgpack.decode(Path(os.environ[_PLANS]).read_bytes(), type=list[Plan])
        now_s = datetime.now(UTC).timestamp()
        app.conf.beat_schedule = {str(plan.number): _entry(plan, now_s) for plan in plans}
    else:
        from celery.signals import worker_ready

        worker_ready.connect(_say_ready, weak=False)
    app.start(argv=arguments)


if __name__ == "__main__":
    _main(sys.argv[1:])
