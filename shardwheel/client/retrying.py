"""When a request is sent again: while nobody can be hurt by it, and there is time. Pure.

What never arrived, was refused with 429, or with a 503 that says that nothing was done, is sent again
whatever it is. What may have been done is sent again only if twice is the same as once: it reads, or is so
by its nature (pause, delete), or has an idempotency key.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from shardwheel.client.failing import failure_of
from shardwheel.client.script import Lost, Pause, Reply, Script, Send

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


def persist(send: Send, *, repeatable: bool, until_s: float, now_s: Callable[[], float]) -> Script[Reply]:
    """Send it, again if need be, and not after `until_s`; the reply of the one that went well."""
    pause_s = FIRST_PAUSE_S
    while True:
        reply: Reply | Lost = yield send
        failure = failure_of(reply, reads=send.method == "GET")
        if failure is None:
            assert isinstance(reply, Reply)
            return reply
        again = failure.passes and (repeatable or not failure.maybe_done)
        wait_s = max(pause_s * random.uniform(0.5, 1), failure.stay_away_s)
        if not again or now_s() + wait_s > until_s:
            raise failure.error from (reply.error if isinstance(reply, Lost) else None)
        yield Pause(wait_s)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
