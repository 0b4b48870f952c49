"""A job and the jobs that run after it: children, theirs, and the edges between them. Pure values.

The root has the schedule; everybody else runs once in each of its runs, when all parents are over. Keys are
what hands and inputs name them by: a job's name where that can be one and is free, or else its id.

    import (cron) ──► check ──► publish         root import; check and publish have no schedule
           └───────────────────►                publish waits for both
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from shardwheel.dag import is_key, shape_between
from shardwheel.ids import text_of


class Member(NamedTuple):
    """One job of a family, with its parents. `task`: which handler ran it when it joined."""

    job_id: bytes
    key: str
    task: str
    parents: tuple[bytes, ...] = ()


class Family(NamedTuple):
    """One version of it; 0: the root has no children yet."""

    root_id: bytes
    version: int
    members: Mapping[bytes, Member]

    @property
    def is_alone(self) -> bool:
        return len(self.members) == 1

    @property
    def keys(self) -> set[str]:
        return {one.key for one in self.members.values()}

    def with_members(self, members: Iterable[Member]) -> Family:
        """More of them, or others in their place."""
        return self._replace(members={**self.members, **{one.job_id: one for one in members}})

    def without(self, job_id: bytes) -> Family:
        """It is gone; whoever has it as a parent waits for the others only."""
        left = [one for one in self.members.values() if one.job_id != job_id]
        kept = {one.job_id: one._replace(parents=_other_than(one.parents, job_id)) for one in left}
        return self._replace(members=kept)

    def with_edge(self, child_id: bytes, parent_id: bytes) -> Family:
        child = self.members[child_id]
        return self.with_members(
            [child._replace(parents=(*_other_than(child.parents, parent_id), parent_id))]
        )

    def without_edge(self, child_id: bytes, parent_id: bytes) -> Family:
        child = self.members[child_id]
        return self.with_members([child._replace(parents=_other_than(child.parents, parent_id))])

    def orphans_without(self, job_id: bytes) -> list[Member]:
        """Who has no other parent."""
        return [one for one in self.members.values() if one.parents == (job_id,)]

    def check(self, field: str) -> None:
        """Refuse a cycle, by name, and what is too large or too deep."""
        keys = {one.job_id: one.key for one in self.members.values()}
        shape_between(
            {one.key: [keys[parent] for parent in one.parents] for one in self.members.values()}, field
        )

    def definition(self) -> dict[str, Any]:
        """As a DAG's is written: for people."""
        keys = {one.job_id: one.key for one in self.members.values()}
        return {
            "tasks": [
                {"key": one.key, "task": one.task, "depends_on": [keys[parent] for parent in one.parents]}
                for one in self.members.values()
            ]
        }


def key_for(name: str, job_id: bytes, taken: Container[str]) -> str:
    return name if is_key(name) and name not in taken else text_of(job_id)


def _other_than(parents: tuple[bytes, ...], job_id: bytes) -> tuple[bytes, ...]:
    return tuple(parent for parent in parents if parent != job_id)
