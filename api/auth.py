"""Who is asking: from an Authorization header to a caller, remembered for a while.

Checking a signature costs more than the rest of a small request, and programs send one token again and again:
what was believed is remembered until it runs out, or until the keys change.
"""

from __future__ import annotations

from collections.abc import Callable

from shardwheel.errors import BadTokenError
from shardwheel.tokens import Caller, Keys, UnknownKeyError, Verifier

MOST_REMEMBERED = 10_000


class Gatekeeper:
    """`now_s`: seconds since 1970. `want_keys` is told when a token names a key that is not known."""

    def __init__(
        self,
        verifier: Verifier,
        keys: Keys,
        *,
        now_s: Callable[[], float],
        want_keys: Callable[[], None] = lambda: None,
    ) -> None:
        self._verifier = verifier
        self._keys = keys
        self._now_s = now_s
        self._want_keys = want_keys
        self._known: dict[str, Caller] = {}

    def replace_keys(self, keys: Keys) -> None:
        """From here on only these. One assignment each, so another thread may do it."""
        if keys != self._keys:
            self._keys = keys
            self._known = {}

    def caller(self, authorization: str | None) -> Caller:
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise BadTokenError("send a token: Authorization: Bearer …; see: shardctl token create")
        known = self._known.get(token)
        if known is not None and known.expires_at_s > self._now_s():
            return known
        return self._check(token.strip())

    def _check(self, token: str) -> Caller:
        known = self._known
        try:
            caller = self._verifier.caller_of(token, self._keys)
        except UnknownKeyError:
            self._want_keys()
            raise
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[token] = caller
        return caller
