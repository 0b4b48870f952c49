"""Jobs as the API makes them: many in one transaction, each with its idempotency key, on record in the audit.

All or none. Keys are taken in their order, so that two batches with the same keys do not wait for each other
in a circle. Our own clients give every job a key, so keys cost a statement or two, however many jobs come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from shardwheel.errors import ConflictError, UsageError
from shardwheel.ids import new_job_id, text_of
from shardwheel.output import shown_duration, shown_time
from shardwheel.posting import JobPosting
from shardwheel.store.arrays import Texts, Uuids
from shardwheel.store.audit import Actor
from shardwheel.store.children import lock_roots, store_jobs
from shardwheel.store.idempotency import Keyed, Stored, store_once, take_keys, used
from shardwheel.store.job_row import JobRow
from shardwheel.store.jobs import insert_jobs, read_now_ms
from shardwheel.store.sql import is_few, sql


class Wish(NamedTuple):
    """A job that somebody wants stored."""

    posting: JobPosting
    actor: Actor


class Found(NamedTuple):
    """A job, and the time at which it was read."""

    job: JobRow
    now_ms: int

    def as_read(self) -> dict[str, Any]:
        """As it is answered: its posted form, so that what was read can be sent back."""
        job = self.job
        shown = {
            "id": text_of(job.job_id),
            "kind": job.kind,
            "state": job.state,
            "next_at": self._next_at(),
            "created_at": shown_time(job.created_ms),
            "version": job.version,
            "partition": job.partition,
            "parents": [text_of(parent) for parent in job.parents],
            "dag_id": None if job.dag_id is None else text_of(job.dag_id),
        }
        posted = job.posted()
        for name, at_ms in ("run_at", job.anchor_ms), ("start_at", job.start_ms), ("end_at", job.end_ms):
            if at_ms is not None and name in posted:
                posted[name] = shown_time(at_ms)
        if "every" in posted:
            posted["every"] = shown_duration(posted["every"])
        posted["catchup_window"] = shown_duration(posted["catchup_window"])
        return shown | posted

    def _next_at(self) -> str | None:
        job = self.job
        if job.state != "active":
            return None
        next_ms = job.timing.next_after(max(self.now_ms, job.effective_from_ms) - 1)
        return None if next_ms is None else shown_time(next_ms)


def create_all(
    conn: Connection[Any], tenant_id: str, wishes: Sequence[Wish], *, numbers: bool = False
) -> list[Found]:
    """The jobs in the order of the wishes; where a key was used before, the job that it made then. `numbers`:
    a key that is refused says whose it is."""
    now_ms = read_now_ms(conn)
    children = {number: wish for number, wish in enumerate(wishes) if wish.posting.parents}
    if children:
        lock_roots(conn, tenant_id, [wish.posting for wish in children.values()])
    others = [number for number in range(len(wishes)) if number not in children]
    stored = {number: Stored(new_job_id(now_ms), True) for number in others}
    stored |= _by_key(conn, tenant_id, {n: (wishes[n], stored[n].job_id) for n in others}, numbers)
    new = [number for number in others if stored[number].is_new]
    ids = [stored[number].job_id for number in new]
    made = insert_jobs(conn, tenant_id, [wishes[number].posting for number in new], now_ms, ids)
    known = {row.job_id: Found(row, now_ms) for row in made}
    if children:
        stored |= _store_children(conn, tenant_id, children)
    _put_on_record(conn, tenant_id, [(one.job_id, wishes[n]) for n, one in stored.items() if one.is_new])
    known |= _read(conn, tenant_id, {one.job_id for one in stored.values()} - known.keys())
    return [known[stored[number].job_id] for number in range(len(wishes))]


def create_batch(conn: Connection[Any], tenant_id: str, wishes: Sequence[Wish]) -> list[Found]:
    """`create_all` for one who sent them together: a refusal of a schedule or a key says whose it is."""
    try:
        return create_all(conn, tenant_id, wishes, numbers=True)
    except UsageError:
        now_ms = read_now_ms(conn)
        for number, wish in enumerate(wishes):
            with numbered(number):
                wish.posting.timing(now_ms)
        raise


@contextmanager
def numbered(number: int) -> Iterator[None]:
    """A refusal inside names the number: `[17].cron`."""
    try:
        yield
    except UsageError as error:
        raise of_number(number, error) from error


def of_number(number: int, error: UsageError) -> UsageError:
    return type(error)(f"[{number}].{error}", field=f"[{number}].{error.field}")


def read_jobs(conn: Connection[Any], tenant_id: str, job_ids: Sequence[bytes]) -> list[Found | None]:
    """Some jobs, in the order of the ids; None for what is not there, or another tenant's."""
    parameters = {"tenant_id": tenant_id, "job_ids": Uuids(job_ids)}
    rows = conn.execute(sql("read_jobs"), parameters).fetchall()
    by_id = {row[0]: Found(JobRow._make(row[:-1]), row[-1]) for row in rows}
    return [by_id.get(job_id) for job_id in job_ids]


def _by_key(
    conn: Connection[Any], tenant_id: str, wishes: Mapping[int, tuple[Wish, bytes]], numbers: bool
) -> dict[int, Stored]:
    """What the keys of those that have one stand for; each comes with the id that it gets if it is new."""
    keyed = {
        number: Keyed.of(wish.posting, job_id)
        for number, (wish, job_id) in wishes.items()
        if wish.posting.idempotency_key
    }
    if not keyed:
        return {}
    found = {}
    for number, stored in zip(keyed, take_keys(conn, tenant_id, list(keyed.values())), strict=True):
        if stored is None:
            refusal = used(keyed[number].key)
            raise of_number(number, refusal) if numbers else refusal
        found[number] = stored
    return found


def _store_children(conn: Connection[Any], tenant_id: str, wishes: Mapping[int, Wish]) -> dict[int, Stored]:
    """All that have no key at once, then those with one, one by one in the order of their keys."""
    keys = {n: key for n, wish in wishes.items() if (key := wish.posting.idempotency_key) is not None}
    plain = [number for number in wishes if number not in keys]
    made = store_jobs(conn, tenant_id, [wishes[number].posting for number in plain])
    stored = {number: Stored(job_id, True) for number, job_id in zip(plain, made, strict=True)}
    for number in sorted(keys, key=keys.__getitem__):
        stored[number] = store_once(conn, tenant_id, wishes[number].posting)
    return stored


def _read(conn: Connection[Any], tenant_id: str, job_ids: Collection[bytes]) -> dict[bytes, Found]:
    """Jobs that stand in the table already, by their ids."""
    found = read_jobs(conn, tenant_id, list(job_ids)) if job_ids else []
    if None in found:
        raise ConflictError("idempotency_key: its job is gone; choose another key", field="idempotency_key")
    return {one.job.job_id: one for one in found if one is not None}


def _put_on_record(conn: Connection[Any], tenant_id: str, made: Sequence[tuple[bytes, Wish]]) -> None:
    """What was posted, but for the params: those are in the job's own row until somebody edits them."""
    if not made:
        return
    values = {
        "tenant_id": tenant_id,
        "action": "job.create",
        "object_kind": "job",
        "actors": Texts([wish.actor.name for _, wish in made]),
        "roles": Texts([wish.actor.role for _, wish in made]),
        "object_ids": Texts([text_of(job_id) for job_id, _ in made]),
        "details": Texts([_details(wish.posting) for _, wish in made]),
    }
    conn.execute(sql("write_audits"), values, prepare=is_few(len(made)))


def _details(posting: JobPosting) -> str:
    posted = msgspec.json.encode(msgspec.structs.replace(posting, params={}))
    return '{"before":null,"after":' + posted.decode() + "}"
