"""`shardctl bench claim`: how many executions a second PostgreSQL claims and settles, on one connection.

Jobs of the mix, far more than a batch, so that the rows are not side by side; each batch is one transaction
on a durable server, as a worker and the result processor make it. The reference is a bare insert of as many
rows (an id and a number, by unnest) on the same connection, in turn with the others.
"""

from __future__ import annotations

import itertools
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from shardwheel.bench.embedded import embedded_postgres
from shardwheel.bench.measure import machine
from shardwheel.bench.mix import TASK
from shardwheel.bench.report import Panel, print_machine, print_table, save_picture
from shardwheel.bench.stored import entries_of, store
from shardwheel.execution import Claimant, Claimed
from shardwheel.ids import fire_id
from shardwheel.job import JobEntry
from shardwheel.store.arrays import Bigints, Uuids
from shardwheel.store.claim import claim
from shardwheel.store.link import Connection, Session, open_link
from shardwheel.store.settle import settle
from shardwheel.wire import FORMAT_VERSION, Fire, FireKind, Outcome, Result

BATCHES: Final = (100, 500)
JOBS: Final = 50_000
_LEAST_ROUNDS: Final = 3
_BARE_TABLE: Final = b"CREATE TABLE IF NOT EXISTS bench_bare (id uuid PRIMARY KEY, number bigint)"
_BARE_INSERT: Final = b"INSERT INTO bench_bare SELECT * FROM unnest(%s::uuid[], %s::bigint[])"

Report = dict[str, Any]
Batch = Sequence[tuple[Fire, int]]


def bench_claim(seconds: float, say: Callable[[str], None]) -> Report:
    with embedded_postgres(say) as dsn:
        return measure_claim(dsn, seconds, say)


def measure_claim(dsn: str, seconds: float, say: Callable[[str], None], jobs: int = JOBS) -> Report:
    say(f"storing {jobs:,} jobs")
    entries = list(entries_of(jobs, _now_ms()))
    store(dsn, entries)
    result: Report = {"claims_per_s": {}, "settles_per_s": {}, "bare_inserts_per_s": {}}
    times_ms = itertools.count(_now_ms())
    gate = Gate(dsn)
    try:
        for size in BATCHES:
            say(f"batches of {size}")
            batches = batches_of(entries, size, times_ms)
            gate.run(batches, 0)  # The first rounds warm caches and plans.
            rates = gate.run(batches, seconds / len(BATCHES))
            for name, rate in zip(result, rates, strict=True):
                result[name][str(size)] = round(rate)
    finally:
        gate.close()
    return result | {"machine": machine()}


class Gate:
    """One connection as the services open it, and the time that each kind of batch took on it."""

    def __init__(self, dsn: str) -> None:
        self._link = open_link(Session(dsn, "bench", None, 60.0))
        self._connection.execute(_BARE_TABLE)
        self._connection.commit()

    @property
    def _connection(self) -> Connection:
        return self._link.connection

    def close(self) -> None:
        self._link.close()

    def run(self, batches: Iterator[Batch], seconds: float) -> tuple[float, float, float]:
        """Claims, settles and bare inserts a second, each counted by its own time."""
        count, took_s = 0, [0.0, 0.0, 0.0]
        until_s = time.monotonic() + seconds
        for rounds, batch in enumerate(batches):
            if rounds >= _LEAST_ROUNDS and time.monotonic() > until_s:
                break
            self._round(batch, took_s)
            count += len(batch)
        claims, settles, bares = (count / one_s for one_s in took_s)
        return claims, settles, bares

    def _round(self, batch: Batch, took_s: list[float]) -> None:
        begun_s = time.perf_counter()
        claimed = self._claim(batch)
        claimed_s = time.perf_counter()
        results = [_result(one) for one in claimed]
        made_s = time.perf_counter()
        self._settle(results)
        settled_s = time.perf_counter()
        self._bare([fire.execution_id for fire, _ in batch])
        ended_s = time.perf_counter()
        for place, span_s in enumerate((claimed_s - begun_s, settled_s - made_s, ended_s - settled_s)):
            took_s[place] += span_s

    def _claim(self, batch: Batch) -> list[Claimed]:
        claimant = Claimant("bench", "short", frozenset({TASK}), uuid.uuid4().bytes)
        reply = claim(self._connection, batch, claimant)
        self._connection.commit()
        if len(reply.claimed) != len(batch):
            raise RuntimeError(f"claimed {len(reply.claimed)} of {len(batch)}: {reply.recorded}")
        return reply.claimed

    def _settle(self, results: Sequence[Result]) -> None:
        settled = settle(self._connection, results)
        self._connection.commit()
        if settled.stale:
            raise RuntimeError(f"{settled.stale} of {len(results)} results were stale")

    def _bare(self, ids: Sequence[bytes]) -> None:
        numbers = Bigints(list(range(len(ids))))
        self._connection.execute(_BARE_INSERT, [Uuids(ids), numbers], prepare=False)
        self._connection.commit()


def batches_of(entries: Sequence[JobEntry], size: int, times_ms: Iterator[int]) -> Iterator[Batch]:
    """Fires of jobs chosen by chance; each batch has a time of its own, so no execution is met twice."""
    dice = random.Random(size)
    for at_ms in times_ms:
        yield [(_fire(entry, at_ms), entry.priority) for entry in dice.sample(entries, size)]


def _fire(entry: JobEntry, at_ms: int) -> Fire:
    return Fire(
        version=FORMAT_VERSION,
        kind=FireKind.FIRE,
        execution_id=fire_id(entry.job_id, entry.partition, at_ms),
        job_id=entry.job_id,
        partition=entry.partition,
        schedule_no=entry.schedule_no,
        scheduled_ms=at_ms,
        due_ms=at_ms,
        attempt=1,
    )


def _result(claimed: Claimed) -> Result:
    return Result(
        version=FORMAT_VERSION,
        execution_id=claimed.execution_id,
        job_id=claimed.job_id,
        partition=claimed.partition,
        attempt=claimed.attempt,
        claim_token=claimed.claim_token,
        outcome=Outcome.SUCCEEDED,
        started_ms=claimed.due_ms,
        ended_ms=claimed.due_ms + 3,
        worker="bench",
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_LABELS: Final = {
    "claims_per_s": "claims a second",
    "settles_per_s": "settles a second",
    "bare_inserts_per_s": "bare inserts a second",
}


def print_result(result: Report) -> None:
    rows = [[label, *(result[name][str(size)] for size in BATCHES)] for name, label in _LABELS.items()]
    print_table("The gate, one connection", ["batch", *map(str, BATCHES)], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    lines = {label: [result[name][str(size)] for size in BATCHES] for name, label in _LABELS.items()}
    title = "The gate: rows a second by the size of a batch"
    save_picture(
        path, title, [Panel("One connection", "rows a batch", "rows a second", BATCHES, lines, log=True)]
    )
