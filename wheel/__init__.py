"""The hierarchical timing wheel: pure data structure, no clock, no I/O, no async, no logging.

Read `wheel.py` first: it explains the whole with a worked example. Then `rings.py` (the machine),
`level.py` (one ring), `entries.py` (the columns) and `register.py` (ids and rows).
"""

from __future__ import annotations

from shardwheel.wheel.wheel import JOB, WAITING, Wheel

__all__ = ["JOB", "WAITING", "Wheel"]
