"""Alerts over HTTP: pages that miss none, and a silence that is on record."""

from __future__ import annotations

import psycopg
import pytest

from tests.integration.api.rig import Rig

pytestmark = pytest.mark.servers


def test_pages_hold_every_open_alert_once_and_newest_first(api: Rig) -> None:
    made = [api.alert(f"page {number}") for number in range(5)]
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = api.call("GET", "/alerts", role="operator", params=params).json()
        found += [alert["id"] for alert in page["items"]]
        cursor = page["next_cursor"]
    assert [alert_id for alert_id in found if alert_id in made] == made[::-1]


def test_what_is_over_is_listed_only_when_asked_for(api: Rig) -> None:
    over, still_open = api.alert("over"), api.alert("still open")
    with psycopg.connect(api.dsn) as conn:
        conn.execute("UPDATE shardwheel.alerts SET resolved_at = now() WHERE alert_id = %s", [over])
    listed = {
        state: {one["id"] for one in api.call("GET", f"/alerts?state={state}").json()["items"]}
        for state in ("open", "resolved", "all")
    }
    assert over not in listed["open"] and still_open in listed["open"]
    assert over in listed["resolved"] and still_open not in listed["resolved"]
    assert {over, still_open} <= listed["all"]


def test_a_silence_is_on_record_with_who_and_until_when(api: Rig) -> None:
    alert_id = api.alert("noisy")
    path = f"/alerts/{alert_id}:silence"
    silenced = api.call("POST", path, {"for": "2h"}, role="operator", tenant="quiet").json()
    assert silenced["state"] == "open" and silenced["silenced_until"] is not None
    (entry,) = api.call("GET", "/audit", tenant="quiet").json()["items"]
    assert (entry["actor"], entry["action"], entry["object_id"]) == ("ann", "alert.silence", alert_id)
    assert entry["details"]["after"]["silenced_until"] == silenced["silenced_until"]


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/alerts?state=closed", None, 400, "state"),
        ("/alerts?cursor=x", None, 400, "cursor"),
        ("/alerts?cursor=12-x", None, 400, "cursor"),
        ("/alerts/00000000-0000-0000-0000-000000000000:silence", {"for": "1h"}, 404, "id"),
        ("/alerts/00000000-0000-0000-0000-000000000000:silence", {"for": "32d"}, 400, "for"),
        ("/alerts/00000000-0000-0000-0000-000000000000:silence", {"until": "1h"}, 400, "until"),
    ],
)
def test_refusals_name_the_field(
    api: Rig, path: str, body: dict[str, str] | None, status: int, field: str
) -> None:
    answer = api.call("GET" if body is None else "POST", path, body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)
