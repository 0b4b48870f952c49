"""The API as verbs use it: paths with their ids put in safely, lists page by page, plain values."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from shardwheel.client import Client
from shardwheel.client.calls import part
from shardwheel.commands.reach import Reach
from shardwheel.errors import UnavailableError

# Somebody sits and waits: long enough for a restart's gap, not for an outage.
RETRY_S = 3.0
TIMEOUT_S = 30.0
PAGE = 200


class Api:
    """A call that may have been done is repeated only where twice is the same as once."""

    def __init__(self, reach: Reach, *, timeout_s: float = TIMEOUT_S) -> None:
        self.reach = reach
        self._client = Client(
            reach.url, token=reach.token, timeout_s=timeout_s, retry_s=RETRY_S, verify=reach.trust
        )

    def get(self, path: str, *ids: str, **query: Any) -> Any:
        return self._ask("GET", _filled(path, ids), query=_given(query))

    def post(self, path: str, *ids: str, body: dict[str, Any] | None = None) -> Any:
        """Something that said twice is the same: a pause, a drain."""
        return self._ask("POST", _filled(path, ids), body=body or {}, repeatable=True)

    def make(self, path: str, *ids: str, body: dict[str, Any]) -> Any:
        """Something new. A key of its own makes a repeat harmless."""
        keyed = {"idempotency_key": uuid.uuid4().hex} | body
        return self._ask("POST", _filled(path, ids), body=keyed)

    def make_all(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All of these jobs, or none. Each brings a key, so a repeat is harmless."""
        made: list[dict[str, Any]] = self._ask("POST", "/jobs:batch", body=jobs, repeatable=True)["items"]
        return made

    def patch(self, path: str, *ids: str, body: dict[str, Any]) -> Any:
        return self._ask("PATCH", _filled(path, ids), body=body, repeatable=True)

    def put(self, path: str, *ids: str) -> Any:
        return self._ask("PUT", _filled(path, ids))

    def delete(self, path: str, *ids: str) -> Any:
        return self._ask("DELETE", _filled(path, ids))

    def _ask(self, *words: Any, **more: Any) -> Any:
        try:
            return self._client.request(*words, **more)
        except UnavailableError as error:
            if error.__cause__ is None:
                raise
            # Nobody answered: then it matters where that was.
            where = f"{self.reach.url}, from {self.reach.where}; shardctl doctor looks at it"
            raise UnavailableError(f"{error}: {where}", maybe_applied=error.maybe_applied) from error

    def pages(self, path: str, *ids: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Everything on a list."""
        cursor = query.pop("cursor", None)
        while True:
            page = self.get(path, *ids, **{"limit": PAGE} | query, cursor=cursor)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def some(self, path: str, *ids: str, limit: int, **query: Any) -> list[dict[str, Any]]:
        """So many of a list, though it be more than a page."""
        found: list[dict[str, Any]] = []
        for item in self.pages(path, *ids, **query | {"limit": min(limit, PAGE)}):
            found.append(item)
            if len(found) == limit:
                break
        return found


def _filled(path: str, ids: tuple[str, ...]) -> str:
    return path.format(*map(part, ids))


def _given(query: dict[str, Any]) -> dict[str, Any]:
    """What was said. A name that Python keeps for itself ends in `_`."""
    return {name.rstrip("_"): value for name, value in query.items() if value is not None}
