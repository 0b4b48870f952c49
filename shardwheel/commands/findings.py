"""What `shardctl doctor` says of one thing that it looked at. Pure."""

from __future__ import annotations

from typing import NamedTuple

# Tokens run out and people read times by these clocks; firing itself goes by the database's alone.
MOST_CLOCK_OFF_S = 30.0


class Finding(NamedTuple):
    """`remedy` is empty when it is as it should be."""

    check: str
    state: str
    remedy: str = ""


def of_clock(check: str, whose: str, off_s: float, known_to: str) -> Finding:
    """`off_s`: how far that clock is before this machine's; `known_to`: how well that is known."""
    way = "before" if off_s > 0 else "behind"
    state = f"{whose} clock is {abs(off_s):.3f} s {way} this machine's ({known_to})"
    if abs(off_s) <= MOST_CLOCK_OFF_S:
        return Finding(check, state)
    return Finding(check, state, "set both clocks by NTP: tokens and times are judged by them")
