"""Redriving dead letters of DAG tasks: their runs go on.

Such a letter makes no new execution: a task runs once per run, so what died gets its next attempt, in the
same run, and what was skipped for it waits for it again. Of a fan-out the items whose letters are meant run
again, and no others. All letters of one run in a request go together.

Lock order: the letters' jobs (so that a delete is seen or waits), their runs, the letters, then all that
letting a run go on touches; each in key order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg import Connection

from shardwheel.execution import Resolved
from shardwheel.store.arrays import Uuid, Uuids
from shardwheel.store.audit import Actor
from shardwheel.store.dag_put_off import EVERY_END, tell_runs
from shardwheel.store.dag_resolve import Resolution
from shardwheel.store.dag_runs import Run, lock_runs
from shardwheel.store.dag_slots import OverlapError
from shardwheel.store.letter_row import LetterRow
from shardwheel.store.sql import sql


class Ruling(NamedTuple):
    """What became of a letter: `redrive`, or why not. `redriven_as` is what it runs as, now or before."""

    letter_id: bytes
    ruling: str
    redriven_as: bytes | None
    redriven_with: dict[str, Any] | None = None


class _Letter(NamedTuple):
    """As it stands under its lock. `is_last`: its execution is dead, and died no other time since."""

    letter_id: bytes
    execution_id: bytes
    job_id: bytes
    run_id: bytes
    state: str
    redriven_as: bytes | None
    item_no: int | None
    is_last: bool
    job_state: str | None

    def ruling(self, run: Run | None) -> str:
        if self.state != "open":
            return self.state
        if self.job_state in (None, "deleted"):
            return "job_gone" if self.job_state is None else "job_deleted"
        if run is None:
            return "run_gone"
        if run.state == "cancelled":
            return "run_cancelled"
        return "redrive" if self.is_last else "task_over"


def resume_runs(
    conn: Connection[Any], tenant_id: str, letters: Sequence[LetterRow], actor: Actor
) -> tuple[list[Ruling], Resolved]:
    """Let the runs of those letters that are of tasks go on; what became of these, and what followed. The
    others, which the caller deals with next, are locked with them: in one order, as whoever discards does."""
    for job_id in sorted({row.job_id for row in letters}):
        conn.execute(sql("share_job"), {"tenant_id": tenant_id, "job_id": Uuid(job_id)})
    run_ids = sorted({row.dag_run_id for row in letters if row.dag_run_id})
    told = tell_runs(conn, run_ids, most=EVERY_END).resolved
    runs = lock_runs(conn, run_ids)
    locked = _lock(conn, tenant_id, [row.dead_letter_id for row in letters])
    tasks = [letter for letter in locked if letter.run_id is not None]
    ruled = [(letter, letter.ruling(runs.get(letter.run_id))) for letter in tasks]
    meant = [letter for letter, ruling in ruled if ruling == "redrive"]
    late, followed = _go_on_without_overlap(conn, meant, actor)
    meant = [letter for letter in meant if letter.run_id not in late]
    if meant:
        _mark(conn, tenant_id, meant, actor)
    final = [
        (one, "run_overlaps" if ruling == "redrive" and one.run_id in late else ruling)
        for one, ruling in ruled
    ]
    rulings = [
        Ruling(letter.letter_id, ruling, letter.execution_id if ruling == "redrive" else letter.redriven_as)
        for letter, ruling in final
    ]
    return rulings, told.and_also(followed)


def _go_on_without_overlap(
    conn: Connection[Any], meant: Sequence[_Letter], actor: Actor
) -> tuple[frozenset[bytes], Resolved]:
    """Let the runs go on; those that can't, since others of their DAGs are under way, and what followed. Each
    time that some can't, nothing of it stays, and the rest is tried again: fewer each time."""
    late: frozenset[bytes] = frozenset()
    while going := [letter for letter in meant if letter.run_id not in late]:
        try:
            with conn.transaction():
                runs = lock_runs(conn, {letter.run_id for letter in going})
                return late, _go_on(conn, runs, going, actor)
        except OverlapError as error:
            late |= error.run_ids
    return late, Resolved()


def _lock(conn: Connection[Any], tenant_id: str, letter_ids: Sequence[bytes]) -> list[_Letter]:
    given = {"tenant_id": tenant_id, "letter_ids": Uuids(letter_ids)}
    return [_Letter._make(row) for row in conn.execute(sql("lock_letters"), given, prepare=False)]


def _go_on(conn: Connection[Any], runs: dict[bytes, Run], meant: Sequence[_Letter], actor: Actor) -> Resolved:
    run_ids = sorted({letter.run_id for letter in meant})
    resolution = Resolution(conn, {run_id: runs[run_id] for run_id in run_ids})
    for run_id in run_ids:
        run, wanted = runs[run_id], [letter for letter in meant if letter.run_id == run_id]
        fans = {run.execution_of(letter.job_id) for letter in wanted if letter.item_no is not None}
        again = {letter.execution_id for letter in wanted} | fans
        resolution.requeue(run, actor.name, task_ids=[], execution_ids=sorted(again))
    return resolution.close()


def _mark(conn: Connection[Any], tenant_id: str, meant: Sequence[_Letter], actor: Actor) -> None:
    letter_ids = Uuids([letter.letter_id for letter in meant])
    given = {"tenant_id": tenant_id, "letter_ids": letter_ids, "actor": actor.name, "role": actor.role}
    conn.execute(sql("mark_letters"), given, prepare=False)
