"""What a step of the demo reports."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One line of the demo's table."""

    part: str
    is_well: bool
    detail: str
