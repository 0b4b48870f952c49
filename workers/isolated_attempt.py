"""One isolated attempt as its worker sees it: a channel to its keeper, followed until the keeper says that
nothing is left. Calls of `ctx` are answered on the way."""

from __future__ import annotations

from collections.abc import Callable

import trio

from shardwheel.errors import UsageError
from shardwheel.isolation import Limits
from shardwheel.wire import Outcome
from shardwheel.workers.children import InChild
from shardwheel.workers.ending import told
from shardwheel.workers.frames import (
    FRAME_LIMIT_BYTES,
    Answer,
    Call,
    Ended,
    Frame,
    Output,
    Started,
    Stop,
    decode,
    encode,
)
from shardwheel.workers.run import End
from shardwheel.workers.verdict import verdict

# Beyond its grace an attempt has so long to be gone and to say so.
GONE_LIMIT_S = 10.0
_DESERTED = End(Outcome.FAILED, "ChildDied", "its process and its keeper are gone; somebody killed them")


class IsolatedAttempt:
    """`began` is called when the handler is about to be."""

    def __init__(
        self, channel: trio.socket.SocketType, limits: Limits, child: InChild, began: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._limits = limits
        self._child = child
        self._began = began
        self._owes_answer = False

    async def follow(self) -> End | None:
        while True:
            try:
                frame = await receive(self._channel)
            except UsageError as error:
                return End(Outcome.FAILED, "ChildDied", str(error))
            if frame is None:
                return _DESERTED if self._child.has_begun else None
            if isinstance(frame, Ended) and not self._child.has_begun:
                return None  # It died while it waited for an attempt.
            if isinstance(frame, Ended):
                self._child.drop(frame.dropped_bytes, self._limits.output_kb)
                return verdict(frame, self._limits, self._child.known)
            await self._heed(frame)

    async def stop(self, grace_s: float) -> None:
        """Ask it to stop, and wait until it is gone; should even its keeper hang, not for ever. (Whatever
        hangs there sees the end of its channel when we leave.)"""
        with trio.move_on_after(grace_s + GONE_LIMIT_S, shield=True):
            try:
                if self._owes_answer:
                    await self._channel.send(
                        encode(Answer(None, "Superseded", "the attempt is being stopped"))
                    )
                await self._channel.send(encode(Stop(grace_s)))
            except OSError:
                return
            await self.follow()

    async def _heed(self, frame: Frame) -> None:
        if isinstance(frame, Started):
            self._child.has_begun = True
            self._began()
        elif isinstance(frame, Output):
            self._child.hear(frame.data)
        elif isinstance(frame, Call):
            self._owes_answer = True
            answer = await self._answer(frame)
            try:
                await self._channel.send(answer)
            except OSError:
                return  # It is gone, as the next frame will tell.
            self._owes_answer = False

    async def _answer(self, call: Call) -> bytes:
        try:
            return encode(Answer(await self._child.serve(call.method, call.arguments)))
        except Exception as error:
            return encode(Answer(None, *told(error)[:2]))


async def receive(channel: trio.socket.SocketType) -> Frame | None:
    try:
        packet = await channel.recv(FRAME_LIMIT_BYTES)
    except ConnectionError:
        return None
    return decode(packet) if packet else None
