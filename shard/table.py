"""The columns beside a wheel's: what a shard knows of each job, one record a row.

A record instead of an object: at a million jobs Python's collector would walk a million objects, and each
would cost more than its record. And a record instead of a column a field: what is due lies anywhere, so each
field of it would be a cache miss, whereas a record is one or two.

The records lie in a bytearray, since that grows in place, and are seen through numpy. Such a view lives no
longer than a call: memory that somebody looks into can't grow.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardwheel.partition import PARTITIONS
from shardwheel.shard.terms import NOBODY, AllTerms

Rows: TypeAlias = NDArray[np.int64]
Records: TypeAlias = NDArray[np.void]

# Stands in the place of the partition in a row that holds nothing.
NOWHERE: Final = 0xFFFF

# `last_ms` is END_MS where the job has no last time; `terms` is NOBODY for a waiting execution.
RECORD: Final = np.dtype(
    {
        "names": [
            "scheduled_ms",
            "anchor_ms",
            "last_ms",
            "schedule_no",
            "version",
            "terms",
            "partition",
        ],
        "formats": ["i8", "i8", "i8", "i8", "i8", "u4", "u2"],
        "itemsize": 48,
    }
)
_EMPTY: Final = np.array((0, 0, 0, 0, 0, NOBODY, NOWHERE), RECORD)


class Table:
    """Records by row, the terms that they name, and how many rows each partition has."""

    def __init__(self) -> None:
        self.terms = AllTerms()
        self._memory = bytearray()
        self._counts = np.zeros(PARTITIONS, np.int64)

    @property
    def records(self) -> Records:
        """All of them, to be read and written; not to be kept."""
        return np.frombuffer(self._memory, RECORD)

    def count(self, partition: int) -> int:
        return int(self._counts[partition])

    def rows_of(self, partitions: Collection[int]) -> Rows:
        """All rows of these partitions. It looks at every row."""
        return np.flatnonzero(np.isin(self.records["partition"], list(partitions)))

    def fill(self, rows: Rows, jobs: Records) -> None:
        """Set the records of these rows, which were empty, to what has their fields among others."""
        self._grow(int(rows.max(initial=-1)) + 1)
        records = self.records
        for name in RECORD.names or ():
            records[name][rows] = jobs[name]
        self._count(jobs["partition"])

    def assign(self, rows: Rows, partitions: NDArray[np.int64]) -> None:
        """Let these rows, which may be known already, be waiting executions of these partitions."""
        self._grow(int(rows.max(initial=-1)) + 1)
        column = self.records["partition"]
        self._count(partitions[column[rows] == NOWHERE])
        column[rows] = partitions

    def clear(self, rows: Rows) -> None:
        """Empty these rows: the next one who gets them must find no job there."""
        records = self.records
        self._counts -= np.bincount(records["partition"][rows], minlength=PARTITIONS)
        records[rows] = _EMPTY

    def tidy(self) -> None:
        """Forget terms that no job has any more, if there may be many of them."""
        if self.terms.is_crowded(int(self._counts.sum())):
            numbers = self.records["terms"]
            used = np.unique(numbers)
            numbers[:] = self.terms.keep(used[used != NOBODY].tolist())[numbers]

    def _count(self, partitions: NDArray[np.integer]) -> None:
        self._counts += np.bincount(partitions, minlength=PARTITIONS)

    def _grow(self, rows: int) -> None:
        missing = rows - len(self._memory) // RECORD.itemsize
        if missing > 0:
            self._memory += _EMPTY.tobytes() * missing
