"""`shardctl bench dag`: what a DAG's edges cost: a chain, a fan-out with its join, and many runs at once.

One shard, one worker and one result processor, as `shardctl` runs them, on durable servers; all tasks are
no-ops.

- *Chains*, one after the other: each task is queued by the end of the one before, so a run's time divided by
  its tasks is the way from one task's end to the next one's. The reference is the same way without a DAG:
  jobs of their own, one after the other, from due to settled (median).
- *Fan-outs*: a task that lists numbers, a task for each of them, a task that gets all outputs; from the run's
  begin to its end.
- *Runs at once*: ten layers of five tasks each, every one after all five of the layer before. All runs are
  triggered in one transaction; what is not over when the limit has passed is stuck. The reference is as many
  jobs of their own, all due at once.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from shardwheel.bench.embedded import Servers, embedded_servers
from shardwheel.bench.loop import LIMIT_S, Loop, open_loop
from shardwheel.bench.measure import machine, spread
from shardwheel.bench.mix import TASK
from shardwheel.bench.noop import LISTER
from shardwheel.bench.report import Bars, print_machine, print_table, save_picture
from shardwheel.bench.stored import TENANT
from shardwheel.dag import parse_dag
from shardwheel.store.arrays import Uuid
from shardwheel.store.dags import create_dag
from shardwheel.store.requests import trigger_job

CHAIN: Final = 100
ITEMS: Final = 1_000
RUNS: Final = 200
_REPEATED: Final = 3
_LAYERS, _WIDTH = 10, 5
_LOOK_S: Final = 0.2
# A reference job comes when the one before is surely over.
_APART_MS: Final = 100
_PROGRESS: Final = b"""
SELECT count(*) FILTER (WHERE state = 'succeeded'),
       extract(epoch FROM max(ended_at) - min(started_at))::float8, sum(succeeded)::bigint
  FROM shardwheel.dag_runs WHERE dag_id = %s"""

Report = dict[str, Any]
Say = Callable[[str], None]
Task = Mapping[str, Any]


class Played(NamedTuple):
    """Runs of one DAG: how many did not succeed in time, and how long all of them took together."""

    stuck: int
    took_s: float
    tasks: int


def bench_dag(chain: int, items: int, runs: int, say: Say) -> Report:
    with embedded_servers(say) as servers:
        return measure_dag(servers, chain, items, runs, say)


def measure_dag(servers: Servers, chain: int, items: int, runs: int, say: Say) -> Report:
    with open_loop(servers) as loop, psycopg.connect(servers.dsn, autocommit=True) as connection:
        say("starting a shard, a worker, a result processor")
        loop.play([0])
        _play(connection, chain_of(3))  # What is slow the first time is over after this one.
        say(f"{_REPEATED} chains of {chain:,}, and {chain:,} jobs one after the other")
        chains = [_play(connection, chain_of(chain)) for _ in range(_REPEATED)]
        alone_ms = loop.latencies(loop.play(range(0, chain * _APART_MS, _APART_MS))).percentile_ms(50)
        say(f"{_REPEATED} fan-outs of {items:,}")
        fans = [_play(connection, fan_of(items)) for _ in range(_REPEATED)]
        say(f"{runs:,} runs of {_LAYERS * _WIDTH} tasks at once, and as many jobs")
        crowd = _play(connection, layers(), runs)
        jobs_per_s = _jobs_per_s(loop, runs * _LAYERS * _WIDTH)
    steps = [one.took_s * 1000 / chain for one in chains]
    tasks_per_s = crowd.tasks / crowd.took_s
    return {
        "chain": chain,
        "chain_step_ms": round(spread(steps).median, 1),
        "chains_step_ms": [round(step, 1) for step in steps],
        "job_p50_ms": round(alone_ms, 1),
        "step_ratio": round(alone_ms / spread(steps).median, 3),
        "items": items,
        "fan_out_s": round(spread(one.took_s for one in fans).median, 2),
        "fan_outs_s": [round(one.took_s, 2) for one in fans],
        "runs": runs,
        "runs_s": round(crowd.took_s, 2),
        "tasks_per_s": round(tasks_per_s),
        "jobs_per_s": round(jobs_per_s),
        "ratio": round(tasks_per_s / jobs_per_s, 3),
        "stuck": sum(one.stuck for one in (*chains, *fans, crowd)),
        "machine": machine(),
    }


def chain_of(length: int) -> list[Task]:
    return [
        {"key": f"t{number}", "task": TASK, "depends_on": [f"t{number - 1}"] if number else []}
        for number in range(length)
    ]


def fan_of(items: int) -> list[Task]:
    return [
        {"key": "list", "task": LISTER, "params": {"to": items}},
        {"key": "each", "task": TASK, "depends_on": ["list"], "fan_out": True},
        {"key": "join", "task": TASK, "depends_on": ["each"]},
    ]


def layers() -> list[Task]:
    def keys(layer: int) -> list[str]:
        return [f"{layer}.{place}" for place in range(_WIDTH)] if layer >= 0 else []

    return [
        {"key": key, "task": TASK, "depends_on": keys(layer - 1)}
        for layer in range(_LAYERS)
        for key in keys(layer)
    ]


def _play(connection: psycopg.Connection[Any], tasks: Sequence[Task], runs: int = 1) -> Played:
    """Store a DAG, trigger so many runs of it at once, and wait until all are over."""
    with connection.transaction():
        dag_id = create_dag(connection, TENANT, parse_dag({"name": "bench", "tasks": list(tasks)}))
    with connection.transaction():
        for _ in range(runs):
            trigger_job(connection, TENANT, dag_id, uuid.uuid4().bytes)
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        ((succeeded, took_s, ended),) = connection.execute(_PROGRESS, [Uuid(dag_id)])
        if succeeded == runs or time.monotonic() > deadline_s:
            return Played(runs - succeeded, took_s or LIMIT_S, ended or 0)
        time.sleep(_LOOK_S)


def _jobs_per_s(loop: Loop, jobs: int) -> float:
    return jobs / loop.play(itertools.repeat(0, jobs)).took_s


_LABELS: Final = {
    "chain_step_ms": "a task of the chain, ms",
    "job_p50_ms": "  a job alone, due to settled, p50, ms",
    "step_ratio": "  ratio",
    "fan_out_s": "the fan-out and its join, s",
    "runs_s": "the runs at once, s",
    "tasks_per_s": "  tasks a second",
    "jobs_per_s": "  jobs without a DAG, a second",
    "ratio": "  ratio",
    "stuck": "stuck",
}


def print_result(result: Report) -> None:
    rows = [[label, result[name]] for name, label in _LABELS.items()]
    title = (
        f"DAGs: chains of {result['chain']:,}, fan-outs of {result['items']:,}, "
        f"{result['runs']:,} runs of {_LAYERS * _WIDTH} tasks at once"
    )
    print_table(title, ["", ""], rows)
    print_machine(result["machine"])


def picture(result: Report, path: Path) -> None:
    steps = {"a task of a chain": result["chain_step_ms"], "a job alone": result["job_p50_ms"]}
    rates = {"tasks of DAGs": result["tasks_per_s"], "jobs of their own": result["jobs_per_s"]}
    panels = [
        Bars("One after the other", "ms", steps),
        Bars("All at once", "executions a second", rates),
    ]
    save_picture(path, "DAGs", panels)
