"""Isolated attempts, from the worker's side: keep a fork server running, and follow each attempt to its end.

An attempt gets a channel of its own. One end goes to the fork server, which forks a keeper for it; from
then on worker and keeper talk alone, and the fork server may die without them. When an attempt is cut off,
its keeper is told to stop it, and it counts as running until nothing of it is left (or its keeper hangs,
too): its lease goes on, and its place is not given to another too early. A few children are forked ahead.

    Isolation.run    start ── Setup ▸ ◂ Ready ── wait for its end ── start again …
                     channel ▸ fork server, a few ahead
    Isolation.call   Order ▸   ◂ Started, Output, Call … Ended
"""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Mapping
from socket import SCM_RIGHTS, SOL_SOCKET

import trio

from shardwheel.errors import UsageError
from shardwheel.handler import Registry
from shardwheel.logs import get_logger
from shardwheel.service import Health
from shardwheel.workers.children import InChild
from shardwheel.workers.frames import Order, Ready, Setup, channel_pair, encode
from shardwheel.workers.isolated_attempt import IsolatedAttempt, receive
from shardwheel.workers.run import End

# Of the worker's environment a child sees these and nothing else.
ENVIRONMENT = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV")
# Threads of a child would else map 128 MiB each, all of it counted by the limit.
ADDED_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
PART = "isolation"
PAUSE_S = 0.5
# So many children wait for an attempt, forked ahead.
READY = 2
LEAVE_S = 5.0
_COMMAND = (
    "import sys; sys.path[:] = sys.argv[3:]; from shardwheel.workers.forkserver import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in ENVIRONMENT if name in environ} | ADDED_ENVIRONMENT


def network_obstacle(user: str) -> str:
    """Why this machine lets no child have a network of its own, or "". Tried in a process to waste."""
    code = "import sys; from shardwheel.workers.confine import can_separate; print(can_separate(sys.argv[1]))"
    tried = subprocess.run([sys.executable, "-c", code, user], capture_output=True, text=True)
    return tried.stdout.strip() if tried.returncode == 0 else f"it could not be tried: {tried.stderr[-200:]}"


def require_isolation(registry: Registry, isolation: Isolation | None) -> None:
    """No isolated handler is ever called in the worker itself, for want of anything better."""
    if registry.isolated and isolation is None:
        names = ", ".join(one.task for one in registry.isolated)
        raise UsageError(
            f"isolated: this worker can't isolate {names}; give it an Isolation", field="isolated"
        )


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
        self._there_is_one = trio.Event()
        self._one_at_a_time = trio.Lock()
        self._ready: deque[trio.socket.SocketType] = deque()
        self._one_has_begun = trio.Event()
        # What an operator should know, each said once.
        self.warnings: list[str] = []
        self._log = get_logger(part=PART)

    # --- the fork server -----------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Have a fork server, whatever becomes of it; until cancelled. It has started when the first one is
        ready; if that can't be had, the worker can't work, and a `UsageError` says why."""
        self._task_status: trio.TaskStatus[None] | None = task_status
        while True:
            reason = await self._have_one()
            if self._task_status is not None:
                raise UsageError(f"isolated: no fork server can be had: {reason}", field="isolated")
            self._health.unwell(PART, f"no fork server: {reason}; another one is started")
            self._log.error("the fork server is gone", reason=reason)
            await trio.sleep(PAUSE_S)

    async def _have_one(self) -> str:
        """Start one and let it be used until it ends, or is no use; returns why."""
        ours, theirs = channel_pair()
        with trio.socket.from_stdlib_socket(ours) as control:
            with theirs:
                try:
                    process = self._start(theirs.fileno())
                except OSError as error:
                    return f"it can't be started: {error}"
            try:
                return await self._use(control)
            finally:
                self._control, self._there_is_one = None, trio.Event()
                while self._ready:
                    self._ready.popleft().close()
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

    async def _use(self, control: trio.socket.SocketType) -> str:
        await control.send(encode(self._setup))
        ready = await receive(control)
        if not isinstance(ready, Ready):
            return "it died as it was set up; the worker's standard error has its last words"
        self._say_once(ready.warnings)
        if ready.refused:
            return ready.refused
        self._control = control
        self._there_is_one.set()
        self._health.well(PART)
        if self._task_status is not None:
            self._task_status.started()
            self._task_status = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_some_ready)
            await receive(control)
            nursery.cancel_scope.cancel()
        return "it died"

    async def _keep_some_ready(self) -> None:
        """Children forked ahead. One that was used is replaced when its handler has begun, not before: it
        would be in its way."""
        while True:
            self._one_has_begun = trio.Event()
            while len(self._ready) < READY:
                channel = await self._open_channel()
                if channel is None:
                    return
                self._ready.append(channel)
            await self._one_has_begun.wait()

    def _say_once(self, warnings: list[str]) -> None:
        for warning in warnings:
            if warning not in self.warnings:
                self.warnings.append(warning)
                self._log.warning(warning)

    # --- an attempt ----------------------------------------------------------------------------------

    async def call(self, order: Order, child: InChild) -> End:
        """Run one attempt in a child of its own. What can't begin waits: at its time-out it is given back,
        and has not failed. When cancelled, this returns once nothing of the attempt is left."""
        async with self._children:
            while True:
                await self._there_is_one.wait()
                end = await self._attempt(order, child)
                if end is not None:
                    return end
                await trio.sleep(PAUSE_S)

    async def _attempt(self, order: Order, child: InChild) -> End | None:
        """None: it was not begun, since the fork server died or could not fork."""
        while self._ready:
            end = await self._follow(self._ready.popleft(), order, child)
            if end is not None:  # Else it has died while it waited.
                return end
        channel = await self._open_channel()
        return None if channel is None else await self._follow(channel, order, child)

    async def _open_channel(self) -> trio.socket.SocketType | None:
        """A channel to a keeper that is about to be forked; None if there is nobody to fork it."""
        ours, theirs = channel_pair()
        channel = trio.socket.from_stdlib_socket(ours)
        with theirs:
            try:
                async with self._one_at_a_time:
                    if self._control is not None:
                        rights = [(SOL_SOCKET, SCM_RIGHTS, array("i", [theirs.fileno()]))]
                        await self._control.sendmsg([b"\0"], rights)
                        return channel
            except (OSError, trio.ClosedResourceError):
                pass
            except trio.Cancelled:
                channel.close()
                raise
        channel.close()
        return None

    async def _follow(self, channel: trio.socket.SocketType, order: Order, child: InChild) -> End | None:
        with channel:
            attempt = IsolatedAttempt(channel, order.limits, child, self._one_has_begun.set)
            try:
                await channel.send(encode(order))
            except OSError:
                return None
            try:
                return await attempt.follow()
            except trio.Cancelled:
                await attempt.stop(order.grace_s)
                raise


async def _await_end(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself, its socket being closed; else it is made to. (Its keepers see to their own ends.)"""
    with trio.CancelScope(shield=True):
        try:
            await trio.to_thread.run_sync(process.wait, LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await trio.to_thread.run_sync(process.wait)
