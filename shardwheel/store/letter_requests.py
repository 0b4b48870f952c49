"""What people ask of dead letters: run them again, or let them be. Singly or by filter, idempotent, audited.

A redrive is a new execution of the same job: kind redrive, scheduled now, with the letter's params (or
others, given with the request) and no failures yet. It takes the job as it is today; the checkpoint of the
run that was given up is not carried over, since it may be what it died of. Its request is the letter, and the
letter names it: so a second redrive of the same letter answers with the same execution. Of a DAG's task it is
the same execution's next attempt, and its run goes on (`letter_resuming`).

By filter it goes page by page, a transaction each, from the latest letter to the oldest. What dies again
meanwhile is a new letter, later than the first page, and never seen: it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.errors import ConflictError, NotFoundError
from shardwheel.execution import Resolved
from shardwheel.ids import REDRIVE, execution_id, text_of
from shardwheel.posting import check_params
from shardwheel.store.arrays import Uuids
from shardwheel.store.audit import Actor
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.letter_resuming import Ruling, resume_runs
from shardwheel.store.letter_row import LetterRow
from shardwheel.store.letters import LetterFilter, cursor_after, read_letter, read_page
from shardwheel.store.sql import sql
from shardwheel.times import refuse

# How many letters one transaction deals with.
AT_ONCE = 200

_REFUSALS = {
    "job_deleted": "its job is deleted: create the job anew, and trigger it with the letter's params",
    "job_gone": "its job is gone: create the job anew, and trigger it with the letter's params",
    "run_cancelled": "its DAG run is cancelled: trigger the DAG for a new one",
    "run_overlaps": "another run of its DAG is not over, and the DAG's overlap is not allow: wait for it",
    "run_gone": "its DAG run is gone: trigger the DAG for a new one",
    "task_over": "its task is no longer dead in its DAG run: it was completed, skipped or run again by hand",
    "discarded": "it was discarded",
    "redriven": "it was redriven already",
}


class Dealt(NamedTuple):
    """What became of a page of letters: how many were dealt with, how many not, by the reason, and where the
    next page goes on (None: that was all); and what followed for runs of DAGs."""

    done: int
    refused: Mapping[str, int]
    next_cursor: str | None
    resolved: Resolved = Resolved()


class Redriven(NamedTuple):
    """What a letter runs as, and what followed for its run, if it was a task of a DAG."""

    execution_id: bytes
    resolved: Resolved = Resolved()


def redrive_letter(
    conn: Connection[Any],
    tenant_id: str,
    letter_id: bytes,
    actor: Actor,
    params: Mapping[str, Any] | None = None,
) -> bytes:
    """As `redrive`: the execution, without what followed."""
    return redrive(conn, tenant_id, letter_id, actor, params).execution_id


def redrive(
    conn: Connection[Any],
    tenant_id: str,
    letter_id: bytes,
    actor: Actor,
    params: Mapping[str, Any] | None = None,
) -> Redriven:
    """Run it again, once; as what. Said again, the same execution."""
    if params is not None:
        check_params(params)
    row, _ = read_letter(conn, tenant_id, letter_id)
    if params is not None and row.dag_run_id is not None:
        refuse("params", "a task of a DAG runs again as it was", "redrive it without, or trigger the DAG")
    (ruling,), resolved = _redrive(conn, tenant_id, [row], actor, params)
    if ruling.redriven_as is None:
        raise _refusal(ruling)
    if ruling.ruling != "redrive" and params is not None and ruling.redriven_with != params:
        raise ConflictError(
            f"dead letter {text_of(letter_id)} was redriven with other params; trigger its job instead",
            field="params",
        )
    return Redriven(ruling.redriven_as, resolved)


def discard_letter(conn: Connection[Any], tenant_id: str, letter_id: bytes, actor: Actor) -> None:
    """Nobody will run it again. Said again, the same."""
    rulings = _discard(conn, tenant_id, [letter_id], actor)
    if not rulings:
        raise NotFoundError(f"there is no dead letter {text_of(letter_id)}", field="id")
    if rulings[0].ruling == "redriven":
        raise _refusal(rulings[0])


def redrive_some(
    conn: Connection[Any],
    tenant_id: str,
    wanted: LetterFilter,
    actor: Actor,
    *,
    cursor: str | None = None,
    at_once: int = AT_ONCE,
) -> Dealt:
    """Run a page of the open letters that the filter means again; go on at its `next_cursor`."""
    rows = read_page(conn, tenant_id, wanted._replace(state="open"), limit=at_once, cursor=cursor)
    rulings, resolved = _redrive(conn, tenant_id, rows, actor, None)
    dealt = _dealt(rulings, "redrive", cursor_after(rows[-1]) if len(rows) == at_once else None)
    return dealt._replace(resolved=resolved)


def discard_some(
    conn: Connection[Any],
    tenant_id: str,
    wanted: LetterFilter,
    actor: Actor,
    *,
    cursor: str | None = None,
    at_once: int = AT_ONCE,
) -> Dealt:
    """Discard a page of the open letters that the filter means; go on at its `next_cursor`."""
    rows = read_page(conn, tenant_id, wanted._replace(state="open"), limit=at_once, cursor=cursor)
    rulings = _discard(conn, tenant_id, [row.dead_letter_id for row in rows], actor)
    return _dealt(rulings, "discard", cursor_after(rows[-1]) if len(rows) == at_once else None)


def _redrive(
    conn: Connection[Any],
    tenant_id: str,
    letters: Sequence[LetterRow],
    actor: Actor,
    params: Mapping[str, Any] | None,
) -> tuple[list[Ruling], Resolved]:
    """First of tasks, since runs are locked before executions are made; what is left makes new ones."""
    plain = [row for row in letters if row.dag_run_id is None]
    rulings, resolved = list[Ruling](), Resolved()
    if len(plain) < len(letters):
        rulings, resolved = resume_runs(conn, tenant_id, letters, actor)
    return rulings + (_redrive_plain(conn, tenant_id, plain, actor, params) if plain else []), resolved


def _redrive_plain(
    conn: Connection[Any],
    tenant_id: str,
    letters: Sequence[LetterRow],
    actor: Actor,
    params: Mapping[str, Any] | None,
) -> list[Ruling]:
    now_ms = read_now_ms(conn)
    new_ids = [
        execution_id(REDRIVE, row.job_id, row.partition, now_ms, row.dead_letter_id) for row in letters
    ]
    parameters = {
        **_by(tenant_id, [row.dead_letter_id for row in letters], actor),
        "job_ids": Uuids([row.job_id for row in letters]),
        "execution_ids": Uuids(new_ids),
        "now_ms": now_ms,
        "params": None if params is None else msgspec.json.encode(params).decode(),
    }
    return [Ruling._make(row) for row in conn.execute(sql("redrive_letters"), parameters, prepare=False)]


def _discard(
    conn: Connection[Any], tenant_id: str, letter_ids: Sequence[bytes], actor: Actor
) -> list[Ruling]:
    parameters = _by(tenant_id, letter_ids, actor)
    return [Ruling._make(row) for row in conn.execute(sql("discard_letters"), parameters, prepare=False)]


def _by(tenant_id: str, letter_ids: Sequence[bytes], actor: Actor) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "letter_ids": Uuids(letter_ids),
        "actor": actor.name,
        "role": actor.role,
    }


def _dealt(rulings: Sequence[Ruling], done: str, next_cursor: str | None) -> Dealt:
    by_ruling = Counter(ruling.ruling for ruling in rulings)
    return Dealt(by_ruling.pop(done, 0), dict(by_ruling), next_cursor)


def _refusal(ruling: Ruling) -> ConflictError:
    return ConflictError(f"dead letter {text_of(ruling.letter_id)}: {_REFUSALS[ruling.ruling]}", field="id")
