"""How deep a JSON value is nested. Pure, and never recurses itself.

What is nested too deep for one reader is not for another: Python's own stack is part of what decides, so a
value that came in at the API's door might end the worker that reads it, or the list that it stands in. So
there is one limit, far below what any reader can take.
"""

from __future__ import annotations

from typing import Any, Final

MOST_LEVELS: Final = 100


def is_deeper(value: Any, most: int = MOST_LEVELS) -> bool:
    """Whether there are more than so many objects and lists, one in the other."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)
