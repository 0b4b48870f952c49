"""What PostgreSQL makes of JSON, known before it has any: it takes no NUL, and writes numbers out. Pure.

`1e308` is five bytes as it is sent, and 309 as it is read back. Whoever measures only what is sent lets
64 KiB become three megabytes, in every list, letter and worker that they are read for.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

# In a JSON string; an even number of backslashes before it are themselves escaped.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# A number with an exponent, or a text with what looks like one.
_EXPONENT: Final = re.compile(rb"\de[+-]?\d")


def has_nul(encoded: bytes) -> bool:
    return _NUL.search(encoded) is not None


def bytes_when_read(value: Any, encoded: bytes) -> int:
    """How many bytes a value takes once it was stored, which is `encoded` as it is sent."""
    return len(encoded) + (_written_out(value) if _EXPONENT.search(encoded) else 0)


def _written_out(value: Any) -> int:
    """What its numbers grow by, at the least."""
    grown, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part
        elif isinstance(part, float) and "e" in (text := repr(part)):
            grown += max(0, len(format(Decimal(text), "f")) - len(text))
    return grown
