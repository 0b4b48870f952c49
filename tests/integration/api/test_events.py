"""Server-sent events: a tenant's own, in their order, and again after a break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import pytest

from shardwheel.api import telling
from shardwheel.api.app import PREFIX
from tests.integration.api.rig import Rig, token

pytestmark = pytest.mark.servers


def events_of(answer: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """(id, kind, data) of each event, as they come."""
    event_id = kind = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            event_id = value
        elif name == "event":
            kind = value
        elif name == "data":
            yield event_id, kind, msgspec.json.decode(value)


@contextmanager
def listening(api: Rig, tenant: str, last_id: str = "") -> Iterator[Iterator[tuple[str, str, Any]]]:
    headers = {"authorization": f"Bearer {token(tenant)}"} | ({"last-event-id": last_id} if last_id else {})
    with api.client.stream("GET", PREFIX + "/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events_of(answer)


def test_a_change_is_told_to_its_own_tenant_and_to_nobody_else(api: Rig) -> None:
    with listening(api, "loud") as loud, listening(api, "silent") as silent:
        assert next(loud)[1:] == next(silent)[1:] == ("start", {"complete": True})
        theirs = api.job("loud")["id"]
        kind, data = next(loud)[1:]
        assert (kind, data["action"], data["id"]) == ("change", "job.create", theirs)
        mine = api.job("silent")["id"]
        # Had the other one's been told here, it would have come first.
        assert next(silent)[2]["id"] == mine


def test_a_dead_letter_is_told(api: Rig) -> None:
    with listening(api, "deadly") as heard:
        next(heard)
        letter = api.letter("deadly")
        assert next(data["id"] for _, kind, data in heard if kind == "dead_letter") == letter


def test_after_a_break_it_goes_on_or_says_that_it_can_not(api: Rig) -> None:
    with listening(api, "broken") as heard:
        next(heard)
        api.job("broken")
        last_id = next(heard)[0]
        later = api.job("broken")["id"]
        assert next(heard)[2]["id"] == later
    with listening(api, "broken", last_id) as again:
        assert next(again)[1:] == ("start", {"complete": True})
        assert next(again)[2]["id"] == later
    with listening(api, "broken", "unknown-1") as again:
        assert next(again)[1:] == ("start", {"complete": False})


def test_one_listener_too_many_is_refused(api: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "MOST_OF_TENANT", 1)
    with listening(api, "crowd") as heard:
        next(heard)
        refused = api.call("GET", "/events", tenant="crowd")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
