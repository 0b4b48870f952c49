"""A route: what it answers to, how, and what there is to say about it; the document is made of the same.

`path` is as the contract writes it, `/jobs/{id}:pause`. Litestar knows whole segments only, so inside the
verb is one of its own (`/jobs/{id:str}/:pause`), and the application's door splits it off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from shardwheel.api.desk import Desk
from shardwheel.api.limits import ONE_LIMIT_BYTES, Query
from shardwheel.api.rules import check_task
from shardwheel.errors import ForbiddenError
from shardwheel.ids import id_of
from shardwheel.roles import Role
from shardwheel.store.alterations import By
from shardwheel.store.audit import Actor
from shardwheel.store.page import Page
from shardwheel.tokens import Caller

ANYBODY = Caller("", Role.VIEWER, "anybody")


class Ask(NamedTuple):
    """One request, checked as far as any route's is."""

    desk: Desk
    caller: Caller
    path: Mapping[str, str]
    query: Query
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def actor(self) -> Actor:
        return Actor(self.caller.name, self.caller.role.word)

    @property
    def id(self) -> bytes:
        return id_of(self.path["id"])

    @property
    def by(self) -> By:
        return By(self.actor, self.allowed)

    def allowed(self, task: str) -> None:
        check_task(self.caller, task)

    def refuse_limited(self, what: str) -> None:
        """For what can't be held to some task types."""
        if self.caller.tasks is not None:
            raise ForbiddenError(f"{what} is not for a token that is limited to some tasks", field="tasks")


class Reply(NamedTuple):
    """An answer: a value for JSON, bytes as they are, or a stream of them."""

    value: Any
    status: int = 200
    content_type: str = "application/json"


async def paged(ask: Ask, read: Callable[..., Page], wanted: object) -> Reply:
    """A page of a list that `read(conn, tenant, wanted, limit=, cursor=)` reads."""
    limit, cursor = ask.query.limit(), ask.query.text("cursor")
    page = await ask.desk.much(ask.tenant, read, wanted, limit=limit, cursor=cursor)
    return Reply(page._asdict())


def sliced(ask: Ask, items: Sequence[dict[str, Any]], place: Callable[[str], Any]) -> Reply:
    """A page of a list that is at hand as a whole, in the order of what `place` makes of an id. All of it,
    if no limit is given: whoever wants it whole need not ask again and again."""
    cursor = ask.query.text("cursor")
    if cursor is not None:
        after = place(cursor)
        items = [item for item in items if place(item["id"]) > after]
    limit = len(items) if ask.query.text("limit") is None else ask.query.limit()
    shown = list(items[:limit])
    return Reply({"items": shown, "next_cursor": shown[-1]["id"] if len(items) > len(shown) else None})


class Word(NamedTuple):
    """A parameter of the query. `choices`: there are no others; `most`: of a number."""

    name: str
    what: str
    example: str | int
    choices: tuple[str, ...] = ()
    most: int | None = None


class Route(NamedTuple):
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    answer: Callable[[Ask], Awaitable[Reply]]
    summary: str
    description: str
    reply: Any
    example: Any
    status: int = 200
    body: Any = None
    body_example: Any = None
    body_limit: int = ONE_LIMIT_BYTES
    query: tuple[Word, ...] = ()
    reply_type: str = "application/json"
    id_is_uuid: bool = True
    # A status that is no refusal, but answered in the same form: with this example.
    also: tuple[int, Any] | None = None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"
