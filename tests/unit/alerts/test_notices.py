"""What receivers are told, in both forms; and the one alert that is told from memory."""

from __future__ import annotations

from shardwheel.alert import Alert, Delivery
from shardwheel.alerts.notices import Kind, Receiver
from shardwheel.alerts.outage import Outage
from shardwheel.alerts.rules import Figure, rules

NOON_MS = 1_795_003_200_000
FOUND = rules()["dead_letters"].finding(Figure("dead_letters", 600))
ALERT = Alert(bytes(15) + b"\x01", *FOUND, opened_ms=NOON_MS, last_seen_ms=NOON_MS)
KEY = "00000000-0000-0000-0000-000000000001"


def test_the_generic_form_has_the_alert_and_what_happened() -> None:
    body = Receiver(Kind.WEBHOOK, "http://a/").body(Delivery("", "critical", ALERT), "main")
    assert (body["event"], body["dedup_key"], body["cluster"]) == ("trigger", KEY, "main")
    assert (body["rule"], body["severity"], body["value"]) == ("dead_letters", "critical", 600)
    assert body["sentence"] == FOUND.sentence and body["remedy"] == FOUND.remedy
    assert (body["opened_at"], body["resolved_at"]) == ("2026-11-18T12:00:00.000Z", None)
    over = ALERT._replace(resolved_ms=NOON_MS + 1)
    body = Receiver(Kind.WEBHOOK, "http://a/").body(Delivery("", "resolved", over), "main")
    assert (body["event"], body["state"], body["dedup_key"]) == ("resolve", "resolved", KEY)


def test_pagerdutys_form_is_events_v2() -> None:
    receiver = Receiver(Kind.PAGERDUTY, "http://a/", "routing")
    body = receiver.body(Delivery("", "critical", ALERT), "main")
    assert (body["routing_key"], body["event_action"], body["dedup_key"]) == ("routing", "trigger", KEY)
    payload = body["payload"]
    assert payload["summary"] == f"main: {FOUND.sentence}"
    assert (payload["severity"], payload["source"]) == ("critical", "main")
    assert payload["timestamp"] == "2026-11-18T12:00:00.000Z"
    assert payload["custom_details"]["remedy"] == FOUND.remedy
    body = receiver.body(Delivery("", "resolved", ALERT), "main")
    assert (body["event_action"], body["dedup_key"]) == ("resolve", KEY)


def test_a_receivers_name_tells_them_apart_and_hides_the_address() -> None:
    hooks = [Receiver(Kind.WEBHOOK, "http://a/secret"), Receiver(Kind.WEBHOOK, "http://b/secret")]
    names = {receiver.name for receiver in (*hooks, Receiver(Kind.PAGERDUTY, "http://a/secret", "k"))}
    assert len(names) == 3 and "secret" not in "".join(names)


def test_postgresql_out_of_reach_is_told_once_and_when_it_is_over() -> None:
    outage = Outage(rules()["unreachable"], "PostgreSQL", "main", lambda: NOON_MS)
    assert outage.reached(0) is None
    assert outage.silent(30) is None
    told = outage.silent(31)
    assert told is not None and (told.tell, told.alert.subject) == ("critical", "PostgreSQL")
    assert outage.silent(41) is None
    over = outage.reached(50)
    assert over is not None and (over.tell, over.alert.alert_id) == ("resolved", told.alert.alert_id)
    assert outage.reached(60) is None
    anew = Outage(rules()["unreachable"], "PostgreSQL", "main", lambda: NOON_MS)
    assert anew.silent(0) is None
    again = anew.silent(31)
    assert again is not None and again.alert.alert_id == told.alert.alert_id
