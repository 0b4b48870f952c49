"""The fork server: a process that has imported the handlers' module and does nothing but fork.

A worker can't fork: it has threads (PostgreSQL's pools, librdkafka's), and a copy of it would hold their
locks, its connections and its secrets. To start Python anew for each attempt takes a quarter of a second.
So the worker starts this process once, by exec, with a clean environment and one socket; each packet on
that socket brings the channel of one attempt, and a keeper is forked to take it. It opens no connection,
has no thread, and ends when the worker does.

What a keeper that was killed leaves behind comes to us, since we are a subreaper too, and is killed.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import threading
import traceback

from shardwheel.handler import import_handlers, registry
from shardwheel.workers.confine import (
    PR_SET_CHILD_SUBREAPER,
    can_separate,
    die_with,
    prctl,
    user_entry,
)
from shardwheel.workers.frames import Ready, Setup, encode, receive
from shardwheel.workers.keeper import Ground, children, keep, kill_quietly

# How often to look for what has ended, when nobody asks for anything.
LOOK_MS = 1_000


def main(descriptor: int, worker: int) -> None:
    """Serve until the worker closes the socket or ends."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # Whoever signals the worker's whole group means the worker: it drains, and needs us meanwhile.
        signal.signal(number, signal.SIG_IGN)
    die_with(worker)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=descriptor)
    setup = receive(control)
    if not isinstance(setup, Setup):
        return
    obstacle = _try_network(setup.user)
    ready = _prepare(setup, obstacle)
    control.sendall(encode(ready))
    if not ready.refused:
        _Server(control, Ground(setup.user, not obstacle, frozenset({descriptor}))).serve()


def _prepare(setup: Setup, obstacle: str) -> Ready:
    """Import what every child will need, so that none has to."""
    try:
        _require_of_kernel()
        if setup.user:
            user_entry(setup.user)
        import_handlers(setup.module)
        if any(handler.is_async for handler in registry.isolated):
            importlib.import_module("shardwheel.workers.child_trio")
    except BaseException as error:
        return Ready(refused="".join(traceback.format_exception_only(error)).strip())
    sys.stdout.flush()
    gc.collect()
    gc.freeze()  # The children share what is never written to.
    return Ready(warnings=[*_network_warning(obstacle), *_thread_warning()])


def _require_of_kernel() -> None:
    """What every keeper relies on: better refused now than missed in each of them."""
    os.close(os.pidfd_open(os.getpid()))
    children()


def _network_warning(obstacle: str) -> list[str]:
    if not obstacle:
        return []
    return [f"isolated handlers share this machine's network: no namespace of their own ({obstacle})"]


def _thread_warning() -> list[str]:
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if not names:
        return []
    return [f"the handlers' module starts threads as it is imported ({', '.join(names)}): children lack them"]


def _try_network(user: str) -> str:
    """Why this system lets a child have no network of its own; "" if it does. Tried in a process to waste."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, can_separate(user).encode())
        finally:
            os._exit(0)
    os.close(writer)
    obstacle = os.read(reader, 1_000).decode()  # It says one thing, or ends.
    os.close(reader)
    os.waitpid(pid, 0)
    return obstacle


class _Server:
    def __init__(self, control: socket.socket, ground: Ground) -> None:
        self._control = control
        self._ground = ground
        self._keepers: set[int] = set()

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            if poll.poll(LOOK_MS):
                packet, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
                if not packet:
                    break
                for descriptor in descriptors:
                    self._start(descriptor)
            self._look_after()
        self._look_after()

    def _start(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        with socket.socket(fileno=descriptor) as channel:
            try:
                pid = os.fork()
            except OSError:
                return  # Closed unheard: the worker takes it for what it is.
            if pid == 0:
                _end_as_keeper(channel, self._ground)
            self._keepers.add(pid)

    def _look_after(self) -> None:
        """Forget the keepers that have ended, and end whatever one of them was killed away from."""
        try:
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._keepers.discard(pid)
            # Each that ends leaves its own children to us: until there are none.
            while orphans := set(children()) - self._keepers:
                for orphan in orphans:
                    kill_quietly(orphan)
                for orphan in orphans:
                    os.waitpid(orphan, 0)
        except ChildProcessError:
            return


def _end_as_keeper(channel: socket.socket, ground: Ground) -> None:
    try:
        keep(channel, ground)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
