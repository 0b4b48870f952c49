"""`/events`: what changes, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from shardwheel.api.route import Ask, Reply, Route
from shardwheel.api.telling import Event

HEARTBEAT_S = 10.0
EVENTS = "text/event-stream"
EXAMPLE = (
    'id: 9f86d081-1\nevent: execution\ndata: {"id":"…","job_id":"…","state":"succeeded","reason":null}\n\n'
)


async def events(ask: Ask) -> Reply:
    ask.desk.telling.admit(ask.tenant)
    return Reply(stream(ask, ask.headers.get("last-event-id")), 200, EVENTS)


async def stream(ask: Ask, last_id: str | None) -> AsyncIterator[bytes]:
    """Until the token runs out, the listener is too slow, or the process stops."""
    async with ask.desk.telling.listening(ask.tenant) as (tale, listener):
        await tale.ready.wait()
        missed = None if last_id is None else tale.since(last_id)
        complete = last_id is None or missed is not None
        yield written("start", {"complete": complete})
        for event in missed or ():
            if event.role <= ask.caller.role:
                yield written(event.kind, event.data, event.id)
        while time.time() < ask.caller.expires_at_s:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    event_or_end: Event | None = await listener.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event_or_end is None:
                return
            if event_or_end.role <= ask.caller.role:
                yield written(event_or_end.kind, event_or_end.data, event_or_end.id)


def written(kind: str, data: Any, event_id: str = "") -> bytes:
    """One event, as the format wants it; JSON has no line breaks of its own."""
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


ROUTES = (
    Route(
        "GET",
        "/events",
        events,
        "What changes, as server-sent events",
        "`execution` (one ended), `dead_letter` (a new one), `change` (somebody changed a job, a task, …), "
        "`held` (how many are held, by reason, up to 500 of them), and from the role operator on "
        "`shard_joined` and `shard_left`. Looked for once a second, among the latest 500 of each kind: a "
        "tail for people and dashboards, no record. After a break send `Last-Event-ID`: what was missed is "
        "told if this process still has it; else the first event, `start`, says `complete: false`. A comment "
        "every 10 s shows that the stream lives. It ends with the token. 20 listeners a tenant.",
        str,
        EXAMPLE,
        reply_type=EVENTS,
    ),
)
