"""Alerts over HTTP: what is wrong with the cluster, and to be left in peace about it for a while.

They are the cluster's, not a tenant's: whoever may operate sees all of them. Who silenced which one stands in
the audit of that one's tenant.
"""

from __future__ import annotations

from typing import Any

from shardwheel.alert import Alert, shown_alert
from shardwheel.api import bodies, cluster_views, examples
from shardwheel.api.jobs import PAGE_WORDS
from shardwheel.api.route import Ask, Reply, Route, Word
from shardwheel.output import shown_time
from shardwheel.store.alerts import (
    cursor_of_alert,
    list_alerts,
    place_of_cursor,
    silence_alert,
    silence_of,
)
from shardwheel.store.audit import Actor, write_audit
from shardwheel.store.link import Connection
from shardwheel.store.page import Page, checked_limit, page_of
from shardwheel.times import parse_duration, refuse

MOST_SILENCE_MS = 31 * 86_400_000
STATES: dict[str, bool | None] = {"open": True, "resolved": False, "all": None}


async def list_(ask: Ask) -> Reply:
    state = ask.query.text("state", "open")
    if state not in STATES:
        refuse("state", f"{state!r:.40} is unknown", f"choose one of {', '.join(STATES)}")
    limit, cursor = ask.query.limit(), ask.query.text("cursor")
    page = await ask.desk.pool.run(ask.tenant, _page, STATES[state], limit, cursor)
    return Reply(page._asdict())


async def silence(ask: Ask) -> Reply:
    wish = bodies.read_body(ask.body, bodies.SilenceBody)
    length_ms = parse_duration(wish.for_, "for", most_ms=MOST_SILENCE_MS)
    alert = await ask.desk.pool.run(ask.tenant, _silenced, ask.id, length_ms, ask.actor)
    return Reply(shown_alert(alert))


def _page(conn: Connection, tenant_id: str, is_open: bool | None, limit: int, cursor: str | None) -> Page:
    before = None if cursor is None else place_of_cursor(cursor)
    found = list_alerts(conn, is_open=is_open, limit=checked_limit(limit), before=before)
    return page_of(found, limit, shown_alert, cursor_of_alert)


def _silenced(conn: Connection, tenant_id: str, alert_id: bytes, length_ms: int, actor: Actor) -> Alert:
    before_ms = silence_of(conn, alert_id)
    alert = silence_alert(conn, alert_id, length_ms, actor.name)
    shown = shown_alert(alert)
    details: dict[str, Any] = {
        "before": {"silenced_until": None if before_ms is None else shown_time(before_ms)},
        "after": {name: shown[name] for name in ("rule", "subject", "silenced_until")},
    }
    write_audit(conn, tenant_id, actor, "alert.silence", "alert", shown["id"], details)
    return alert


ROUTES = (
    Route(
        "GET",
        "/alerts",
        list_,
        "What is wrong with the cluster, the newest first",
        "Open alerts, those that are over, or all of them; each with what to do about it.",
        cluster_views.AlertPage,
        examples.page(examples.ALERT),
        query=(
            PAGE_WORDS[0],
            Word("cursor", "`next_cursor` of the page before.", f"1795161660000-{examples.ALERT_ID}"),
            Word("state", "open, if nothing else is said.", "open", tuple(STATES)),
        ),
    ),
    Route(
        "POST",
        "/alerts/{id}:silence",
        silence,
        "Tell nobody of an alert for a while",
        "Nor of the next one of the same rule and subject. It stays open and on the list; that it is over is "
        "told. `0s` ends a silence.",
        cluster_views.AlertView,
        examples.ALERT | {"silenced_until": "2026-11-20T10:01:00.000Z"},
        body=bodies.SilenceBody,
        body_example={"for": "2h"},
    ),
)
