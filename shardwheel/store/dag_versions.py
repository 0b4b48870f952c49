"""A version of a DAG, or of a job with children, as rows: who is in it, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.store.arrays import Bigints, Booleans, Texts, Uuid, Uuids
from shardwheel.store.job_row import JobRow
from shardwheel.store.sql import sql

# What of a job's columns a task has.
_OF_TASK = ("task_key", "task", "name", "params", "tags", "pool", "priority", "timeout_ms", "max_retries")


class Whose(NamedTuple):
    """The DAG, or the job with children, that has the version."""

    tenant_id: str
    dag_id: bytes
    partition: int

    @classmethod
    def of(cls, job: JobRow) -> Whose:
        return cls(job.tenant_id, job.job_id, job.partition)

    def values(self) -> dict[str, Any]:
        return self._asdict() | {"dag_id": Uuid(self.dag_id)}


class Place(NamedTuple):
    """Where a task stands in a version."""

    task_id: bytes
    key: str
    parents: Sequence[bytes]
    fan_out: bool = False


class Version(NamedTuple):
    number: int
    definition: Mapping[str, Any]
    places: Sequence[Place]
    policy: str
    sla_ms: int | None = None
    # Of the policy retry; None: there are no rounds.
    max_retries: int | None = None
    backoff: Mapping[str, Any] | None = None


def create_tasks(conn: Connection[Any], whose: Whose, columns: Sequence[Mapping[str, Any]]) -> None:
    """The jobs of new tasks: a job's columns, with `job_id` (as text) and `task_key`."""
    kept = (*_OF_TASK, "backoff", "not_after_ms", "callback_url", "job_id")
    rows = [{name: one[name] for name in kept} for one in columns]
    given = whose.values() | {"tasks": msgspec.json.encode(rows).decode()}
    conn.execute(sql("create_tasks"), given, prepare=False)


def add_version(conn: Connection[Any], whose: Whose, version: Version) -> None:
    """Whoever calls has locked the DAG's row, or has just made it."""
    places = version.places
    edges = [(place.task_id, parent) for place in places for parent in place.parents]
    values = {
        "version": version.number,
        "policy": version.policy,
        "sla_ms": version.sla_ms,
        "max_retries": version.max_retries,
        "backoff": None if version.backoff is None else msgspec.json.encode(version.backoff).decode(),
        "definition": msgspec.json.encode(version.definition).decode(),
        "task_ids": Uuids([place.task_id for place in places]),
        "task_keys": Texts([place.key for place in places]),
        "fan_outs": Booleans(place.fan_out for place in places),
        "in_degrees": Bigints([len(place.parents) for place in places]),
        "child_ids": Uuids([child for child, _ in edges]),
        "parent_ids": Uuids([parent for _, parent in edges]),
    }
    conn.execute(sql("add_dag_version"), whose.values() | values, prepare=False)
