"""What is due when, over HTTP: the shards count their wheels, the API adds up.

An entry is a job at its next time, or an execution that waits: a job that runs every second is one entry, not
3,600 in the next hour. Only numbers, so those of all tenants.
"""

from __future__ import annotations

from typing import Any

from shardwheel.api import cluster_views, examples
from shardwheel.api.doors import Censuses
from shardwheel.api.route import Ask, Reply, Route, Word
from shardwheel.output import shown_time
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.link import Connection
from shardwheel.times import END_MS, refuse

SPAN_MS = 3_600_000
MOST_BUCKETS = 200


async def wheel(ask: Ask) -> Reply:
    from_ms, to_ms = await _span(ask)
    wanted = ask.query.number("buckets", 60, MOST_BUCKETS)
    bucket_ms = -((from_ms - to_ms) // wanted)
    members = ask.desk.cluster().members.values()
    found = await ask.desk.doors.censuses(members, from_ms, to_ms, bucket_ms)
    return Reply(_shown(found, from_ms, to_ms, bucket_ms))


async def _span(ask: Ask) -> tuple[int, int]:
    from_ms = ask.query.time_ms("from")
    if from_ms is None:
        from_ms = await ask.desk.pool.run(ask.tenant, _now_ms)
    to_ms = ask.query.time_ms("to")
    if to_ms is None:
        to_ms = min(from_ms + SPAN_MS, END_MS)
    if to_ms <= from_ms:
        refuse("to", f"{shown_time(to_ms)} is not after `from`", "choose a later time")
    return from_ms, to_ms


def _shown(found: Censuses, from_ms: int, to_ms: int, bucket_ms: int) -> dict[str, Any]:
    columns = [counted.counts for counted in found.counted.values()]
    return {
        "items": [
            {"id": shard_id, "entries": counted.entries, "counts": counted.counts}
            for shard_id, counted in sorted(found.counted.items())
        ],
        "next_cursor": None,
        "from": shown_time(from_ms),
        "to": shown_time(to_ms),
        "bucket_ms": bucket_ms,
        "counts": [sum(numbers) for numbers in zip(*columns, strict=True)],
        "complete": not found.missing,
        "missing": [{"id": shard_id, "reason": reason} for shard_id, reason in sorted(found.missing.items())],
    }


def _now_ms(conn: Connection, tenant_id: str) -> int:
    return read_now_ms(conn)


ROUTES = (
    Route(
        "GET",
        "/wheel",
        wheel,
        "How many entries are due when, by shard",
        "An entry is a job at its next time, or an execution that waits: so a job counts once, however often "
        "it runs in the span. Each shard counts its own; one that does not answer within a second is "
        "`missing`, and `complete` is false then.",
        cluster_views.WheelView,
        examples.WHEEL,
        query=(
            Word("from", "The begin of the first bucket; else now.", "2026-11-20T08:00:00Z"),
            Word("to", "The end of the last one; else an hour later.", "2026-11-20T09:00:00Z"),
            Word("buckets", "How many at most: 1 to 200, else 60.", 4, most=MOST_BUCKETS),
        ),
    ),
)
