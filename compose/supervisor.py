"""Keep children alive: start them, restart those that die, stop them all in the end.

`supervised(children, board)` runs a group of children for the length of an `async with` block. Groups
nest, and that alone gives the order: the block inside ends first, so services stop before the servers
they lean on.

    board = Board(say=print)
    async with supervised(servers, board):        # goes on once all of them are ready
        async with supervised(services, board):   # likewise
            await stop_requested.wait()
    # services were stopped, then servers; each had its own time limit and was killed after it

So it is when the block is cancelled from outside, as by Ctrl-C: a child that serves is deaf to that, until
the group that it belongs to ends.

A child that dies before it was ever ready is a `StartError`: somebody is waiting and wants the reason.
Afterwards it is restarted for ever, with a growing delay, and the board says so in one line. What a child
is for is not known here, nor are servers, settings or the terminal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import trio

from shardwheel.compose.child import Child, Life
from shardwheel.compose.remedy import last_words
from shardwheel.compose.server import StartError
from shardwheel.compose.state import Process

# A child that a signal kills before it is ready is tried so often.
START_TRIES = 4
FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 15.0
# A child that served for so long has proved itself: its next death starts from the first delay again.
PROVEN_AFTER_S = 30.0


class Board:
    """Where the state of all children stands, in the order of starting.

    `say` takes one line for people; `changed` gets all processes after each change.
    """

    def __init__(
        self, say: Callable[[str], None], changed: Callable[[list[Process]], None] = lambda processes: None
    ) -> None:
        self.say = say
        self.processes: list[Process] = []
        self._changed = changed

    def add(self, process: Process) -> None:
        self.processes.append(process)
        self._changed(self.processes)

    def note(self, process: Process, state: str, pid: int | None) -> None:
        process.state, process.pid = state, pid
        self._changed(self.processes)


@asynccontextmanager
async def supervised(children: Iterable[Child], board: Board) -> AsyncIterator[None]:
    """Start all children at once, wait until each is ready, keep them alive, and stop them at the end."""
    group = [_Keeper(child, board) for child in children]
    with plain_errors():
        async with trio.open_nursery() as keepers:
            try:
                async with trio.open_nursery() as starters:
                    for keeper in group:
                        starters.start_soon(keepers.start, keeper.keep)
                yield
            finally:
                for keeper in group:
                    keeper.scope.cancel()


@contextmanager
def plain_errors() -> Iterator[None]:
    """Callers want the error, not the nurseries that it came through. Of several, the first one counts."""
    try:
        yield
    except BaseExceptionGroup as group:
        error = _first_error(group)
        raise error from error.__cause__


def _first_error(error: BaseException) -> BaseException:
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def next_delay_s(delay_s: float, *, served_s: float) -> float:
    """How long to wait before a restart, after a life that followed `delay_s` and served for `served_s`."""
    return FIRST_DELAY_S if served_s >= PROVEN_AFTER_S else min(delay_s * 2, LONGEST_DELAY_S)


class _Ended(NamedTuple):
    """How one life of a child went: for how long it served (None: never), why it is over, what it wrote."""

    served_s: float | None
    reason: str
    written: str = ""
    crashed: bool = False


class _Keeper:
    """Keeps one child: a task that ends only when it is cancelled, or by a failed first start."""

    def __init__(self, child: Child, board: Board) -> None:
        self._child, self._board = child, board
        # Cancelled by its group, and by others only until the child is ready.
        self.scope = trio.CancelScope()
        self._process = Process(child.role, child.id, None, child.address, str(child.log_path))
        board.add(self._process)

    async def keep(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        def on_ready() -> None:
            self.scope.shield = True
            task_status.started()

        try:
            with self.scope:
                ended = await self._first_life(on_ready)
                await self._restart_for_ever(ended)
        finally:
            self._board.note(self._process, "stopped", None)

    async def _first_life(self, on_ready: Callable[[], None]) -> _Ended:
        """A child that ends by itself before it is ready has a reason, and says it. One that a signal killed
        gets further tries: Kafka's driver aborts its process now and then while a broker is starting."""
        for _ in range(START_TRIES - 1):
            ended = await self._live(on_ready)
            if ended.served_s is not None or not ended.crashed:
                break
            self._say(_line(ended.reason, last_words(ended.written), "it is started again"))
            self._process.restarts += 1
        else:
            ended = await self._live(on_ready)
        if ended.served_s is None:
            raise StartError(self._start_failure(ended))
        return ended

    async def _restart_for_ever(self, ended: _Ended) -> None:
        delay_s, log = FIRST_DELAY_S, f"its log: {self._child.log_path}"
        while True:
            self._board.note(self._process, "restarting", None)
            again = f"it is started again in {delay_s:g} s"
            self._say(_line(ended.reason, last_words(ended.written), again, log))
            await trio.sleep(delay_s)
            self._process.restarts += 1
            ended = await self._live(lambda: self._say("is back"))
            delay_s = next_delay_s(delay_s, served_s=ended.served_s or 0)

    async def _live(self, on_ready: Callable[[], None]) -> _Ended:
        """One life, until it is over. When this is cancelled, the child is stopped within its time limit."""
        try:
            life = Life(self._child)
        except OSError as error:
            return _Ended(None, f"could not be started ({error})")
        try:
            self._board.note(self._process, "starting", life.pid)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._greet, life, on_ready)
                await life.wait()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._stop(life)
        return _Ended(life.served_s, life.ending, life.written(), life.crashed())

    async def _greet(self, life: Life, on_ready: Callable[[], None]) -> None:
        if await life.became_ready():
            self._board.note(self._process, "running", life.pid)
            on_ready()

    async def _stop(self, life: Life) -> None:
        if not life.is_over:
            self._board.note(self._process, "stopping", life.pid)
            await life.stop()

    def _start_failure(self, ended: _Ended) -> str:
        what = f"{self._child.id} {ended.reason} before it was ready"
        return _line(what, last_words(ended.written), f"its log: {self._child.log_path}")

    def _say(self, what: str) -> None:
        self._board.say(f"{self._child.id} {what}")


def _line(*parts: str) -> str:
    return "; ".join(filter(None, parts))
