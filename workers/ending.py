"""What is told of a handler's end, within limits: its value, or its exception. Said the same way by a handler
in this process and by one in a child, so it imports neither trio nor anything that connects."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

import msgspec

from shardwheel.handler import Fatal

OUTPUT_LIMIT_BYTES = 10_240
CLASS_LIMIT = 200
TEXT_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000


class Told(NamedTuple):
    """An exception as text."""

    error_class: str
    message: str
    traceback: str


def encode_output(value: Any) -> bytes:
    output = msgspec.json.encode(value)
    if len(output) > OUTPUT_LIMIT_BYTES:
        raise Fatal(
            f"its output has {len(output)} bytes; return at most {OUTPUT_LIMIT_BYTES}, or a reference"
        )
    return output


def told(error: BaseException) -> Told:
    trace = "".join(traceback.format_exception(error))
    return Told(
        type(error).__name__[:CLASS_LIMIT],
        storable(str(error))[:TEXT_LIMIT],
        storable(trace)[-TRACEBACK_LIMIT:],
    )


def storable(text: str) -> str:
    """Without what PostgreSQL or UTF-8 refuse: zeros and halves of pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
