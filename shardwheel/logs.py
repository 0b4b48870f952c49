"""Structured logs: pretty on a terminal, one JSON object a line otherwise.

Context that belongs to every line of a process (role, shard id) is bound once by `set_up_logs`; what
belongs to one event (partition, execution id) is passed with it. Logs go to standard error: standard
output belongs to the command's answer.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from shardwheel.errors import UsageError

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# Never the local variables: among them are secrets, and what users sent.
_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


def set_up_logs(level: str = "info", log_format: str = "", **context: Any) -> None:
    """Configure the process's logs; `context` is bound to every line."""
    if level not in _LEVELS:
        raise UsageError(f"log_level: {level!r} is not one of {', '.join(_LEVELS)}", field="log_level")
    pretty = log_format == "pretty" or (not log_format and sys.stderr.isatty())
    renderer: Any = structlog.processors.JSONRenderer()
    if pretty:
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not pretty:
        processors.append(structlog.processors.ExceptionRenderer(_TRACEBACKS))
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        # Asked for at each line: whoever replaces standard error (a test, a daemon) gets the next one.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**context)


def get_logger(**context: Any) -> Any:
    """A logger with further context bound, e.g. `get_logger(partition=7)`."""
    return structlog.get_logger(**context)
