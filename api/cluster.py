"""The cluster over HTTP: shards, partitions, the audit. Counts of jobs are the caller's tenant's own."""

from __future__ import annotations

import asyncio
from typing import Any

from shardwheel.api import cluster_views, examples
from shardwheel.api.jobs import PAGE_WORDS, whole_words
from shardwheel.api.route import Ask, Reply, Route, Word, paged, sliced
from shardwheel.job import Pool
from shardwheel.partition import PARTITIONS
from shardwheel.ports import PartitionState
from shardwheel.showing import partition_rows, shard_rows
from shardwheel.store.audit import AuditFilter, list_audit
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.link import Connection
from shardwheel.store.ownership import read_partitions
from shardwheel.store.page import number_of_cursor
from shardwheel.store.steering import count_jobs


async def shards(ask: Ask) -> Reply:
    return sliced(ask, shard_rows(ask.desk.cluster()), str)


async def partitions(ask: Ask) -> Reply:
    view = ask.desk.cluster()
    states, jobs, now_ms = await ask.desk.pool.run(ask.tenant, _partitions)
    rows = partition_rows(view, states, jobs, now_ms)
    return sliced(ask, [_with_id(row) for row in rows], number_of_cursor)


async def pools(ask: Ask) -> Reply:
    """Side by side: each waits for Kafka."""
    names = sorted(Pool)
    lags = await asyncio.gather(*(ask.desk.lags.of(name) for name in names))
    return sliced(ask, [{"id": name, "lag": lag} for name, lag in zip(names, lags, strict=True)], str)


async def audit(ask: Ask) -> Reply:
    query = ask.query
    wanted = AuditFilter(
        actor=query.text("actor"),
        action=query.text("action"),
        object_kind=query.text("object_kind"),
        object_id=query.text("object_id"),
        from_ms=query.time_ms("from"),
        until_ms=query.time_ms("to"),
    )
    return await paged(ask, list_audit, wanted)


def _partitions(conn: Connection, tenant_id: str) -> tuple[list[PartitionState], dict[int, int], int]:
    """The jobs are the tenant's own only."""
    return read_partitions(conn, range(PARTITIONS)), count_jobs(conn, tenant_id), read_now_ms(conn)


def _with_id(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": str(row["partition"]), **row}


ROUTES = (
    Route(
        "GET",
        "/shards",
        shards,
        "The shards that are alive",
        "With their state, and how many partitions they own and mirror. As of a second ago.",
        cluster_views.ShardPage,
        examples.page(examples.SHARD),
        query=whole_words("host-4711-9f86d081"),
    ),
    Route(
        "GET",
        "/partitions",
        partitions,
        "Every partition: who owns it, how far it was fired",
        "`jobs` counts your own active jobs in it.",
        cluster_views.ShardPage,
        examples.page(_with_id(examples.PARTITION)),
        query=whole_words("17"),
    ),
    Route(
        "GET",
        "/pools",
        pools,
        "The pools of workers, and how much waits for each",
        "`lag`: how many fires stand in Kafka that no worker has taken; null while that is not known.",
        cluster_views.PoolPage,
        examples.page({"id": "short", "lag": 12}),
        query=whole_words("long"),
    ),
    Route(
        "GET",
        "/audit",
        audit,
        "Who did what, latest first",
        "Every change through this API, with what was before and what is after.",
        cluster_views.AuditPage,
        examples.page(examples.AUDIT, "815"),
        query=(
            PAGE_WORDS[0],
            Word("cursor", "`next_cursor` of the page before.", "815"),
            Word("actor", "Who did it.", "ann"),
            Word("action", "What was done.", "job.pause"),
            Word("object_kind", "To what kind of thing.", "job"),
            Word("object_id", "To which.", examples.JOB_ID),
            Word("from", "At this time or later.", "2026-11-20T00:00:00Z"),
            Word("to", "Before this time.", "2026-11-21T00:00:00Z"),
        ),
    ),
)
