"""Isolated handlers, beside threads.py: one attempt in a child process, as far as the rest of the worker is
concerned. What the child says comes by here: calls of `ctx` go to the worker's desk, standard output and
error become lines of the execution's log. Secrets are blotted out here, not in the child: it knows them,
and can't be trusted to."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from shardwheel.execution import Claimed
from shardwheel.handler import Superseded
from shardwheel.isolation import Limits
from shardwheel.workers.context import Desk, perform
from shardwheel.workers.frames import Order
from shardwheel.workers.secrets import blotted, longest_blotted

# A longer line of output is cut into several.
LINE_LIMIT = 2_000


class InChild:
    """One attempt of one isolated handler."""

    __slots__ = (
        "_claimed",
        "_decoder",
        "_desk",
        "_is_over",
        "_longest_secret",
        "_unended",
        "has_begun",
        "known",
    )

    def __init__(
        self, claimed: Claimed, desk: Desk, known: tuple[str, ...], is_over: Callable[[], bool]
    ) -> None:
        self._claimed = claimed
        # Given up by its worker: nobody would believe what it says, or forget it again.
        self._is_over = is_over
        self._desk = desk
        self.known = known
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unended = ""
        self._longest_secret = longest_blotted(known)
        self.has_begun = False

    def order(self, limits: Limits, params: Any, timeout_s: float, grace_s: float) -> Order:
        """What the child is told: params with their secrets, and not the token that results are fenced by."""
        data = msgspec.json.encode(params) if self.known else self._claimed.params
        return Order(self._claimed._replace(params=data, claim_token=b""), limits, timeout_s, grace_s)

    async def serve(self, operation: str, arguments: Sequence[Any]) -> bytes | None:
        """A call of `ctx`. Only the desk's own operations pass (`context.OPERATIONS`)."""
        blotted_out = [blotted(self.known, one) if isinstance(one, str) else one for one in arguments]
        if self._is_over():
            raise Superseded("the attempt is over for its worker")
        return await perform(self._desk, self._claimed, operation, blotted_out)

    def hear(self, data: bytes, *, last: bool = False) -> None:
        """A piece of standard output and error, cut wherever it was read."""
        text = blotted(self.known, self._unended + self._decoder.decode(data, last))
        lines = text.split("\n")
        self._unended = "" if last else lines.pop()
        while len(self._unended) > LINE_LIMIT + self._longest_secret:  # Else half of one could slip out.
            lines.append(self._unended[:LINE_LIMIT])
            self._unended = self._unended[LINE_LIMIT:]
        for line in lines:
            if line:
                self._log("info", line)

    def drop(self, dropped_bytes: int, kept_kb: int) -> None:
        """So much more was written than is kept. It is the last that is heard."""
        self.hear(b"", last=True)
        if dropped_bytes:
            text = f"… {dropped_bytes} bytes more of output were dropped (output_kb={kept_kb})"
            self._log("warning", text)

    def _log(self, level: str, text: str) -> None:
        if not self._is_over():
            self._desk.log(self._claimed, level, text)
