"""Which partition a job lives in: a stable hash of its id, the same in every process and version.

P is fixed for a cluster's life: every row, id and topic partition is derived from it. The members of a
DAG are the exception that proves the rule: they live in their DAG's partition, which is why a job's
partition is stored with it and passed on, never computed again from its id.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

PARTITIONS: Final = 256


def partition_of(job_id: bytes) -> int:
    """The partition of a new job that belongs to no DAG. Frozen by the vectors of tests/unit/test_ids.py."""
    return int.from_bytes(blake2b(job_id, digest_size=8).digest(), "big") % PARTITIONS
