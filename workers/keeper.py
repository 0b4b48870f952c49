"""The keeper: a small process beside every attempt, between the worker and the child that runs the handler.

It is the one who can end an attempt *whole*. The kernel gives it whatever the child leaves behind (it is a
"subreaper"), also what went away into a session of its own; so it ends what it sees until it has no
children, and only then tells the worker that the attempt has ended. The end of its channel, which is what a
worker killed with -9 leaves, is an order to do the same. It runs no handler's code, and it outlives the
fork server: an attempt under way does not notice that one die.

    worker ◂──▸ keeper ◂──▸ child ── whatever it starts
                   ◂── standard output and error, as much of it as the limits allow
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import NamedTuple, NoReturn

from shardwheel.errors import UsageError
from shardwheel.workers.child import live
from shardwheel.workers.confine import PR_SET_CHILD_SUBREAPER, confine, keep_only, prctl
from shardwheel.workers.frames import (
    OUTPUT_CHUNK_BYTES,
    Answer,
    Call,
    Ended,
    Finished,
    Frame,
    Order,
    Output,
    Started,
    Stop,
    channel_pair,
    encode,
    receive,
)

# A worker that hangs does not stop an attempt in time: so long after it should have, its keeper does.
OVERDUE_S = 2.0
# A worker that takes nothing for so long is as good as gone.
SEND_LIMIT_S = 30.0
READ_BYTES = 64 * 1024


class Ground(NamedTuple):
    """What the fork server knows and every attempt needs: whom to become, whether the system lets us have a
    network of our own, and its files that an attempt has no business with."""

    user: str
    fenced: bool
    own: frozenset[int]


def keep(channel: socket.socket, ground: Ground) -> None:
    """Fork the child, wait for an order (for a while, perhaps: some are kept ready), pass it on, and stay
    until nothing of it is left."""
    keep_only({channel.fileno()}, ground.own)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    ours, theirs = channel_pair()
    output, spout = os.pipe()
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        own = frozenset({channel.fileno(), ours.fileno(), output})
        _become_child(theirs, spout, keeper, ground._replace(own=own))
    theirs.close()
    os.close(spout)
    order = receive(channel)
    if not isinstance(order, Order) or _is_deserted(channel) or not _pass_on(order, ours):
        _end_whole(child)
        return
    channel.settimeout(SEND_LIMIT_S)
    _Keeper(order, channel, ours, output, child).run()


def children() -> list[int]:
    """The processes whose parent is this one."""
    return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]


def kill_quietly(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _pass_on(order: Order, line: socket.socket) -> bool:
    """False: the child has died while it waited, so the attempt has not begun."""
    try:
        line.sendall(encode(order))
    except ConnectionError:
        return False
    return True


def _become_child(channel: socket.socket, spout: int, keeper: int, ground: Ground) -> NoReturn:
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(spout, 1)
        os.dup2(spout, 2)
        keep_only({channel.fileno()}, ground.own | {spout})
        order = receive(channel)
        if isinstance(order, Order):
            limits = order.limits
            live(order, channel, lambda: confine(limits, ground.user, parent=keeper, fenced=ground.fenced))
    except BaseException:
        traceback.print_exc()  # Into its output: the last that is known of it.
    finally:
        os._exit(1)


class _Keeper:
    """One attempt in a keeper's hands: hear everybody until it is over, then end it whole."""

    def __init__(
        self, order: Order, channel: socket.socket, line: socket.socket, output: int, child: int
    ) -> None:
        self._channel = channel
        self._line = line
        self._output = output
        self._child = child
        self._room = order.limits.output_kb * 1024
        self._dropped = 0
        self._kill_at = time.monotonic() + order.timeout_s + order.grace_s + OVERDUE_S
        self._finished: Finished | None = None
        self._over = self._overdue = False
        self._killed_before = _killed_for_memory()
        self._poll = select.poll()
        pidfd = os.pidfd_open(child)
        self._hearers = {
            channel.fileno(): self._hear_worker,
            line.fileno(): self._hear_child,
            output: self._hear_output,
            pidfd: self._hear_of_its_end,
        }
        for descriptor in self._hearers:
            self._poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        try:
            while not self._over:
                self._step()
        except UsageError:
            pass  # What the child sends is no frame of ours: that ends it too.
        finally:
            exit_code, cpu_s = _end_whole(self._child)
        self._hear_last_words()
        killed = exit_code == -signal.SIGKILL and _killed_for_memory() > self._killed_before
        self._send(Ended(self._finished, exit_code, cpu_s, self._dropped, killed, self._overdue))

    def _step(self) -> None:
        left_s = self._kill_at - time.monotonic()
        heard = self._poll.poll(max(0, left_s) * 1000)
        if not heard:
            self._over = self._overdue = True
        for descriptor, _ in heard:
            self._hearers[descriptor]()

    def _hear_worker(self) -> None:
        frame = receive(self._channel)
        if isinstance(frame, Stop):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGTERM)
            self._kill_at = min(self._kill_at, time.monotonic() + frame.grace_s)
        elif isinstance(frame, Answer):
            with contextlib.suppress(OSError):  # Nobody waits for it any more.
                self._line.send(encode(frame), socket.MSG_DONTWAIT)
        elif frame is None:
            self._over = True

    def _hear_child(self) -> None:
        frame = receive(self._line)
        if isinstance(frame, Finished):
            self._finished, self._over = frame, True
        elif isinstance(frame, Started | Call):
            self._send(frame)
        elif frame is None:
            self._poll.unregister(self._line)

    def _hear_output(self) -> bytes:
        data = os.read(self._output, READ_BYTES)
        if not data:
            self._poll.unregister(self._output)
        kept = data[: self._room]
        self._room -= len(kept)
        self._dropped += len(data) - len(kept)
        for start in range(0, len(kept), OUTPUT_CHUNK_BYTES):
            self._send(Output(kept[start : start + OUTPUT_CHUNK_BYTES]))
        return data

    def _hear_of_its_end(self) -> None:
        self._over = True

    def _hear_last_words(self) -> None:
        """What the child said before it was gone: its end may overtake it."""
        self._line.setblocking(False)
        with contextlib.suppress(BlockingIOError, UsageError):
            while self._finished is None and (frame := receive(self._line)) is not None:
                self._finished = frame if isinstance(frame, Finished) else None
        os.set_blocking(self._output, False)
        with contextlib.suppress(BlockingIOError, KeyError):
            while self._hear_output():
                pass

    def _send(self, frame: Frame) -> None:
        try:
            self._channel.sendall(encode(frame))
        except OSError:  # Its time-out too: the worker is gone, or hangs.
            self._over = True


def _end_whole(child: int) -> tuple[int, float]:
    """Kill the child, its group and all that descends from it; when this returns, nothing of it is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    kill_quietly(child)
    _, status, usage = os.wait4(child, 0)
    # Whoever loses its parent becomes ours, so each turn finds the next generation.
    with contextlib.suppress(ChildProcessError):
        while True:
            for orphan in children():
                kill_quietly(orphan)
            os.waitpid(-1, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def _is_deserted(channel: socket.socket) -> bool:
    """The worker has hung up already: nobody wants this attempt."""
    poll = select.poll()
    poll.register(channel, 0)
    return bool(poll.poll(0))


def _killed_for_memory() -> int:
    """How many processes the kernel has killed since its start, all memory used up."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
