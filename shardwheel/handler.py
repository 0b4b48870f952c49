"""Handlers: the user's own code, registered by task name, and what it may raise.

    from shardwheel import handler, Retryable, Fatal

    @handler("email.send", pool="short", timeout_s=30)
    async def send(ctx, params): ...

An async function runs under trio, a plain one in a thread, either of them with `isolated=True` in a child
process within limits (docs/isolation.md). A failure is a result, not an exception of
ours: whatever the handler raises is reported with its class and traceback. `Retryable` asks for another
attempt (at a time of its choice), `Fatal` for none.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from shardwheel.errors import UsageError
from shardwheel.isolation import Limits, limits_of

POOLS = ("short", "medium", "long")
LONGEST_WAIT_S = 31 * 86_400
LONGEST_WAIT_MS = LONGEST_WAIT_S * 1000

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_wait(retry_after_ms: int) -> bool:
    """Whether a handler's wish is a time to wait for; if not, the job's backoff decides. Asked again wherever
    a wish comes in from outside: a due time beyond all clocks would end whoever reads it."""
    return 0 <= retry_after_ms <= LONGEST_WAIT_MS


class Retryable(Exception):  # noqa: N818 - users raise it by this name (contract.md)
    """Try this execution again; after `after_s` seconds, or by the job's backoff when None (or when it is no
    time to wait for: negative, not a number, longer than 31 days)."""

    def __init__(self, message: str = "", *, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s

    @property
    def after_ms(self) -> int:
        """As a result tells it: -1 is the job's backoff."""
        if self.after_s is None or not 0 <= self.after_s <= LONGEST_WAIT_S:
            return -1
        return round(self.after_s * 1000)


class Fatal(Exception):  # noqa: N818 - users raise it by this name (contract.md)
    """Do not try this execution again: it goes to the dead letters."""


class Superseded(Exception):  # noqa: N818 - beside the two above
    """Raised by `ctx.checkpoint` and `ctx.load_checkpoint`: another attempt has taken over, so stop."""


class Handler(NamedTuple):
    """A registered function. `pool` and `timeout_s` say what it is written for: a job's own values decide
    where and for how long it runs. With limits it is isolated."""

    task: str
    function: Callable[..., Any]
    pool: str
    timeout_s: float | None
    is_async: bool
    limits: Limits | None = None


class Registry:
    """Task name → handler. One per process by default; tests make their own."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add(
        self,
        task: str,
        function: Callable[..., Any],
        pool: str,
        timeout_s: float | None,
        limits: Limits | None = None,
    ) -> None:
        if not task or len(task) > 200:
            raise UsageError(f"task: {task!r} is not a name of 1 to 200 characters", field="task")
        if pool not in POOLS:
            raise UsageError(f"pool: {pool!r} is not one of {', '.join(POOLS)}", field="pool")
        if timeout_s is not None and timeout_s <= 0:
            raise UsageError(f"timeout_s: {timeout_s} is not a positive number of seconds", field="timeout_s")
        known = self._handlers.get(task)
        if known is not None and known.function is not function:
            raise UsageError(
                f"task: {task!r} has two handlers, {known.function!r} and {function!r}", field="task"
            )
        is_async = inspect.iscoroutinefunction(function)
        self._handlers[task] = Handler(task, function, pool, timeout_s, is_async, limits)

    def get(self, task: str) -> Handler | None:
        return self._handlers.get(task)

    @property
    def tasks(self) -> frozenset[str]:
        return frozenset(self._handlers)

    @property
    def isolated(self) -> list[Handler]:
        return [one for one in self._handlers.values() if one.limits is not None]


registry = Registry()


def handler(
    task: str,
    *,
    pool: str = "short",
    timeout_s: float | None = None,
    isolated: bool = False,
    cpu_s: int | None = None,
    memory_mb: int | None = None,
    open_files: int | None = None,
    output_kb: int | None = None,
    network: bool | None = None,
    registry: Registry = registry,
) -> Callable[[_Function], _Function]:
    """Register a function as the handler of a task type. Where it runs and for how long is the job's to say
    (`pool`, `timeout_s` of the posting): what is said here is for its readers. `isolated`, it runs in a child
    process, within the limits given here."""
    given = {
        "cpu_s": cpu_s,
        "memory_mb": memory_mb,
        "open_files": open_files,
        "output_kb": output_kb,
        "network": network,
    }
    limits = limits_of(isolated, given)

    def register(function: _Function) -> _Function:
        registry.add(task, function, pool, timeout_s, limits)
        return function

    return register


def import_handlers(module: str) -> None:
    """Import the user's module, found from the current folder too, so that its handlers register."""
    _look_here_too()
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            raise _no_module(module) from error
        raise
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise UsageError(f"--handlers: {where}: {error.msg}; mend it there", field="handlers") from error


def require_handlers(module: str) -> None:
    """Refuse a module that is not there before anything is started for it. Nothing of it is run, so of a
    package only its first name is looked for."""
    _look_here_too()
    first, _, rest = module.partition(".")
    try:
        found = importlib.util.find_spec(first)
    except ValueError:
        found = None
    if found is None or (rest and found.submodule_search_locations is None):
        raise _no_module(module)


def _look_here_too() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _no_module(module: str) -> UsageError:
    return UsageError(
        f"--handlers: there is no module {module!r} here or on the Python path; name it without .py",
        field="handlers",
    )
