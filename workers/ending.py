"""What is told of a handler's end, within limits and without its secrets: its value, or its exception. Said
the same way by a handler in this process and by one in a child, so it imports neither trio nor a driver."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from shardwheel.errors import UsageError
from shardwheel.handler import Fatal
from shardwheel.workers.secrets import blotted, blotted_json
from shardwheel.workers.values import encode_json, storable_text

OUTPUT_LIMIT_BYTES = 10_240
CLASS_LIMIT = 200
TEXT_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000


class Told(NamedTuple):
    """An exception as text."""

    error_class: str
    message: str
    traceback: str


def encode_output(value: Any, known: tuple[str, ...] = ()) -> bytes:
    try:
        return blotted_json(known, encode_json("output", value, OUTPUT_LIMIT_BYTES))
    except UsageError as error:
        raise Fatal(str(error)) from error


def told(error: BaseException, known: tuple[str, ...] = ()) -> Told:
    trace = "".join(traceback.format_exception(error))
    return fit_to_tell(Told(type(error).__name__, str(error), trace), known)


def fit_to_tell(said: Told, known: tuple[str, ...]) -> Told:
    """Without secrets, and without what can't be stored; of a message the beginning, of a traceback the
    end."""
    return Told(
        storable_text(said.error_class, CLASS_LIMIT),
        storable_text(blotted(known, said.message), TEXT_LIMIT),
        storable_text(blotted(known, said.traceback)[-TRACEBACK_LIMIT:], TRACEBACK_LIMIT),
    )
