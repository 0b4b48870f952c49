"""What both clients share: where the API is, what a request is made of, and what becomes of its answer."""

from __future__ import annotations

import math
import os
import re
import ssl
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from shardwheel.client.method import Query, method
from shardwheel.client.pages import Page, Pages
from shardwheel.client.retrying import persist
from shardwheel.client.script import Pause, Reply, Script, Send
from shardwheel.errors import BadTokenError, NotFoundError, NotOverError, UnavailableError, UsageError
from shardwheel.times import refuse

PREFIX = "/api/v1"
FIRST_LOOK_S = 0.05
SLOWEST_LOOK_S = 1.0
_TOKEN = re.compile(r"[!-~]+")
T = TypeVar("T")


class EndingAnswer(Protocol):
    @property
    def state(self) -> str: ...
    @property
    def is_over(self) -> bool: ...


Ending = TypeVar("Ending", bound=EndingAnswer)


class Calls:
    """Never talks: the two clients do, each in its way.

    What is not given comes from `SHARDWHEEL_API_URL` and `SHARDWHEEL_TOKEN`, or from shardwheel.toml, when it
    is needed. `tenant` is that of jobs in one's own transaction: over HTTP the token says whose they are.
    `verify`: False, or the certificates to believe.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        token: str | None = None,
        tenant: str = "default",
        timeout_s: float = 10.0,
        retry_s: float = 30.0,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self._base_url = base_url
        self._token = token
        self._tenant = tenant
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._verify = verify

    def __repr__(self) -> str:
        """Never the token, nor one that somebody wrote into the address."""
        where = (self._base_url or "").rpartition("@")[2].removeprefix("//")
        return f"{type(self).__name__}({where})"

    @method
    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        repeatable: bool | None = None,
    ) -> Script[Any]:
        """Any route: `client.request("GET", "/jobs", query={"state": "paused"})`; its JSON as plain values.

        `repeatable`: whether to send it again when it may have been done already. Else that goes for what
        only reads, for PUT and DELETE, and for a body with an `idempotency_key`.
        """
        if repeatable is None:
            keyed = isinstance(body, Mapping) and body.get("idempotency_key") is not None
            repeatable = method in ("GET", "PUT", "DELETE") or keyed
        return self._ask(method, path, Any, query=words(**query or {}), body=body, repeatable=repeatable)

    def _ask(
        self,
        verb: str,
        path: str,
        kind: Any,
        *,
        query: Query | None = None,
        body: Any = None,
        repeatable: bool = True,
        retry_s: float | None = None,
    ) -> Script[Any]:
        send = Send(verb, path, query or {}, None if body is None else encoded(body))
        until_s = self._now_s() + (self._retry_s if retry_s is None else retry_s)
        reply = yield from persist(send, repeatable=repeatable, until_s=until_s, now_s=self._now_s)
        return read(reply, kind)

    def _keyed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """With a key of its own, if it has none: so it may be sent again."""
        return {**body, "idempotency_key": body.get("idempotency_key") or self._new_key()}

    def _new_key(self) -> str:
        return uuid.uuid4().hex

    def _until_over(self, path: str, kind: type[Ending], why: str, timeout: float | None) -> Script[Ending]:
        """Look again and again, ever more rarely, until it is over. What is not there is still to come."""
        until_s = math.inf if timeout is None else self._now_s() + timeout
        look_s, state = FIRST_LOOK_S, "not begun"
        while True:
            retry_s = min(self._retry_s, max(0.0, until_s - self._now_s()))
            with suppress(NotFoundError):
                found: Ending = yield from self._ask("GET", path, kind, retry_s=retry_s)
                if found.is_over:
                    return found
                state = found.state
            if self._now_s() + look_s > until_s:
                raise NotOverError(f"it is {state} after {timeout:g} s; wait longer, or ask why: {why}")
            yield Pause(look_s)
            look_s = min(SLOWEST_LOOK_S, look_s * 1.5)

    def _page(self, pages: Pages[T]) -> Script[list[T]]:
        return pages.take((yield from self._ask("GET", pages.path, Page, query=pages.query())))

    def _now_s(self) -> float:
        raise NotImplementedError

    def _address(self) -> tuple[str, dict[str, str]]:
        """The API's address with its prefix, and the headers of every request."""
        base_url, token = self._base_url, self._token
        if base_url is None or token is None:
            found_url, found_token = from_settings()
            base_url, token = base_url or found_url, token or found_token
        if not base_url:
            refuse("base_url", "the API's address is not known", "give it, or set SHARDWHEEL_API_URL")
        if not is_address(base_url):
            refuse("base_url", "is no address", "write it as http://host:port or https://host")
        headers = {"authorization": f"Bearer {sendable(token)}"} if token else {}
        return base_url.rstrip("/").removesuffix(PREFIX) + PREFIX, headers


def from_settings() -> tuple[str, str]:
    """Address and token, from `SHARDWHEEL_*` or shardwheel.toml."""
    from shardwheel.references import referred
    from shardwheel.settings import load_settings, settings_file

    settings = load_settings(environ=os.environ, file=settings_file())
    return settings.api_url, referred(settings.token, "token")


def sendable(token: str) -> str:
    """As a header can carry it. Read from a file it has an end of line, which is none of it; what is refused
    further down would be quoted there."""
    stripped = token.strip()
    if not _TOKEN.fullmatch(stripped):
        problem = "has blanks or characters that no token has; give what `shardctl token create` prints"
        raise BadTokenError(f"token: {problem}", field="token")
    return stripped


def is_address(base_url: str) -> bool:
    try:
        parts = urlsplit(base_url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def words(**given: Any) -> Query:
    """A query's words: what is None was not given."""
    return {name.rstrip("_"): _word(value) for name, value in given.items() if value is not None}


def fields(**given: Any) -> dict[str, Any]:
    """A body's fields: what is None was not given. A name that Python keeps for itself ends in `_`."""
    return {name.rstrip("_"): value for name, value in given.items() if value is not None}


def part(some_id: str) -> str:
    """An id as a part of a path. One that is empty, or means another folder, would lead to another route."""
    if some_id in ("", ".", ".."):
        raise UsageError("id: is empty; give one", field="id")
    return quote(some_id, safe="")


def encoded(body: Any) -> bytes:
    try:
        return msgspec.json.encode(plain(body))
    except (TypeError, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise UsageError(f"body: can't be written as JSON: {error}", field="body") from error


def read(reply: Reply, kind: Any) -> Any:
    if "json" not in reply.content_type:
        return reply.body.decode(errors="replace")
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except msgspec.DecodeError as error:
        problem = f"the API's answer can't be read ({error}): is this client older or newer than it?"
        raise UnavailableError(problem, maybe_applied=True) from error


def _word(value: Any) -> str | int:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else value


def plain(value: Any) -> Any:
    """The API writes a length of time as seconds, JSON as we encode it has a form of its own."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value
