"""The hierarchical timing wheel: pure data structure, no clock, no I/O, no async, no logging.

Read `wheel.py` first: it explains the whole with a worked example. Then `rings.py` (the machine),
`level.py` (one ring), `entries.py` (the columns), `register.py` (ids and rows) and `axle.py` (the wheels
of a shard).
"""

from __future__ import annotations

from shardwheel.wheel.axle import Axle
from shardwheel.wheel.wheel import JOB, WAITING, Wheel

__all__ = ["JOB", "WAITING", "Axle", "Wheel"]
