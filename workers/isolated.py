"""Isolated attempts, from the worker's side: keep a fork server running, and follow each attempt to its end.

An attempt gets a channel of its own. One end goes to the fork server, which forks a keeper for it; from
then on worker and keeper talk alone, and the fork server may die without them. When an attempt is cut off,
its keeper is told to stop it, and it counts as running until nothing of it is left or the grace has passed
twice: its lease goes on, and its place is not given to another too early.

    Isolation.run    start ── Setup ▸ ◂ Ready ── wait for its end ── start again …
    Isolation.call   channel ▸ fork server   Order ▸   ◂ Started, Output, Call … Ended
"""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Mapping
from socket import SCM_RIGHTS, SOL_SOCKET

import trio

from shardwheel.errors import UsageError
from shardwheel.limits import Limits
from shardwheel.logs import get_logger
from shardwheel.service import Health
from shardwheel.wire import Outcome
from shardwheel.workers.children import InChild
from shardwheel.workers.ending import told
from shardwheel.workers.frames import (
    FRAME_LIMIT_BYTES,
    Answer,
    Call,
    Ended,
    Frame,
    Order,
    Output,
    Ready,
    Setup,
    Started,
    Stop,
    channel_pair,
    decode,
    encode,
)
from shardwheel.workers.run import End
from shardwheel.workers.verdict import verdict

# Of the worker's environment a child sees these and nothing else.
ENVIRONMENT = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV")
# Threads of a child would else map 128 MiB each, all of it counted by the limit.
ADDED_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
PART = "isolation"
PAUSE_S = 0.5
LEAVE_S = 5.0
# Beyond its grace an attempt has so long to be gone and to say so.
GONE_LIMIT_S = 10.0
TRIES = 3
_COMMAND = (
    "import sys; sys.path[:] = sys.argv[3:]; from shardwheel.workers.forkserver import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in ENVIRONMENT if name in environ} | ADDED_ENVIRONMENT


def _require_possible(user: str) -> None:
    if sys.platform != "linux":
        raise UsageError(
            "isolated: only Linux can confine a process so; run this worker there", field="isolated"
        )
    if user and os.geteuid() != 0:
        raise UsageError(
            "isolated_user: only root can become another user; leave it out", field="isolated_user"
        )


class Isolation:
    """The isolated attempts of one worker: at most `children` at a time."""

    def __init__(self, module: str, health: Health, *, user: str = "", children: int = 32) -> None:
        _require_possible(user)
        self._setup = Setup(module, user)
        self._health = health
        self._children = trio.CapacityLimiter(children)
        self._control: trio.socket.SocketType | None = None
        self._refused = ""
        self._known = trio.Event()
        # What an operator should know, each said once.
        self.warnings: list[str] = []
        self._log = get_logger(part=PART)

    # --- the fork server -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Have a fork server, whatever becomes of it; until cancelled."""
        while True:
            await self._have_one()
            if not self._refused:
                self._health.unwell(PART, "the fork server died; another one is started")
            self._log.error("the fork server is gone", reason=self._refused or "it died")
            await trio.sleep(PAUSE_S)

    async def _have_one(self) -> None:
        ours, theirs = channel_pair()
        with trio.socket.from_stdlib_socket(ours) as control:
            with theirs:
                try:
                    process = self._start(theirs.fileno())
                except OSError as error:
                    self._refuse(f"it can't be started: {error}")
                    return
            try:
                await self._use(control)
            finally:
                self._control = None
                if not self._refused:
                    self._known = trio.Event()
                control.close()
                await _await_end(process)

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        # From this thread, which lasts: a parent's death is, to the kernel, that of the thread that forked.
        return subprocess.Popen(
            [sys.executable, "-c", _COMMAND, str(descriptor), str(os.getpid()), *sys.path],
            pass_fds=[descriptor],
            env=clean_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )

    async def _use(self, control: trio.socket.SocketType) -> None:
        """Set it up, and let it be used until it ends."""
        await control.send(encode(self._setup))
        ready = await _receive(control)
        if not isinstance(ready, Ready):
            self._refuse("it died as it was set up; the worker's standard error has its last words")
            return
        self._say_once(ready.warnings)
        if ready.refused:
            self._refuse(ready.refused)
            return
        self._refused, self._control = "", control
        self._known.set()
        self._health.well(PART)
        await _receive(control)

    def _refuse(self, reason: str) -> None:
        """Attempts fail with the reason from now on, until one of the next tries succeeds."""
        self._refused = reason
        self._health.unwell(PART, reason)
        self._known.set()

    def _say_once(self, warnings: list[str]) -> None:
        for warning in warnings:
            if warning not in self.warnings:
                self.warnings.append(warning)
                self._log.warning(warning)

    # --- an attempt ----------------------------------------------------------------------------------

    async def call(self, order: Order, child: InChild) -> End:
        """Run one attempt in a child of its own. When cancelled, it returns once nothing of it is left."""
        async with self._children:
            for _ in range(TRIES):
                await self._known.wait()
                control = self._control
                if control is None:  # Refused, or just died.
                    await trio.sleep(0 if self._refused else PAUSE_S)
                    break
                end = await self._attempt(control, order, child)
                if end is not None:
                    return end
                await trio.sleep(PAUSE_S)
        reason = self._refused or "the fork server died again and again"
        return End(Outcome.FAILED, "IsolationUnavailable", f"no child process could be had: {reason}")

    async def _attempt(self, control: trio.socket.SocketType, order: Order, child: InChild) -> End | None:
        """None: it was not begun, since the fork server died or could not fork."""
        packet = encode(order)
        ours, theirs = channel_pair()
        with trio.socket.from_stdlib_socket(ours) as channel:
            attempt = _Attempt(channel, order.limits, child)
            with theirs:
                try:
                    rights = [(SOL_SOCKET, SCM_RIGHTS, array("i", [theirs.fileno()]))]
                    await control.sendmsg([b"\0"], rights)
                    await channel.send(packet)
                except OSError:
                    return None
            try:
                return await attempt.follow()
            except trio.Cancelled:
                await attempt.stop(order.grace_s)
                raise


class _Attempt:
    """One attempt as its worker sees it."""

    def __init__(self, channel: trio.socket.SocketType, limits: Limits, child: InChild) -> None:
        self._channel = channel
        self._limits = limits
        self._child = child
        self._owes_answer = False

    async def follow(self) -> End | None:
        while True:
            try:
                frame = await _receive(self._channel)
            except UsageError as error:
                return End(Outcome.FAILED, "ChildDied", str(error))
            if frame is None:
                return _DESERTED if self._child.has_begun else None
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


_DESERTED = End(Outcome.FAILED, "ChildDied", "its process and its keeper are gone; somebody killed them")


async def _receive(channel: trio.socket.SocketType) -> Frame | None:
    try:
        packet = await channel.recv(FRAME_LIMIT_BYTES)
    except ConnectionError:
        return None
    return decode(packet) if packet else None


async def _await_end(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself, its socket being closed; else it is made to. (Its keepers see to their own ends.)"""
    with trio.CancelScope(shield=True):
        try:
            await trio.to_thread.run_sync(process.wait, LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await trio.to_thread.run_sync(process.wait)
