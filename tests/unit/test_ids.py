"""Ids and partitions are part of every row and message ever written: the vectors here never change."""

from __future__ import annotations

import uuid
from collections import Counter
from hashlib import blake2b

import pytest

from shardwheel.errors import UsageError
from shardwheel.ids import (
    FIRE,
    REDRIVE,
    RERUN,
    TASK,
    TRIGGER,
    Kind,
    execution_id,
    fire_id,
    first_id_at,
    id_of,
    new_job_id,
    partition_of_id,
    scheduled_ms_of,
    text_of,
)
from shardwheel.partition import PARTITIONS, partition_of

CAUSE = bytes.fromhex("a8d154a65103518593aaa3b4988bb61b")

# Job id, its partition.
GOLDEN_PARTITIONS = [
    ("3ece1804-d251-574b-8df3-2f3d8bb104d2", 93),
    ("c1f1df26-5ee7-5b31-a03a-2139276d5656", 222),
    ("798ad029-75a1-5086-86ca-6710952936f5", 23),
    ("638ccf0a-b584-5f76-8e43-ed328924ac0b", 202),
    ("66de7f75-145e-551a-828e-32b2e63b1467", 167),
    ("2e825f49-7438-5728-99d5-6b1b4337bf62", 13),
    ("57bb6813-e8c2-56a0-9947-3a0257bb106f", 7),
    ("904e13da-488b-583e-91fa-b5338c0fb9b0", 159),
    ("5a9b818e-afa9-5f17-92ec-f3cd070a407b", 223),
    ("3c9d44e5-497f-5f61-a613-c39bd7c8d30b", 22),
]
# Kind, which of the jobs above, partition, scheduled time, execution id.
GOLDEN_IDS = [
    (FIRE, 0, 0, 0, "00000000-0000-0000-17c4-920b5414ada7"),
    (FIRE, 1, 7, 1, "00000000-0001-0007-8ffd-56546aca69b3"),
    (FIRE, 2, 255, 1_795_165_200_000, "01a1f82f-1e80-00ff-d141-dc23bb0f6dad"),
    (FIRE, 2, 255, 1_795_165_200_001, "01a1f82f-1e81-00ff-708c-681b8729f47d"),
    (FIRE, 3, 256, 7_289_654_399_999, "06a14142-d3ff-0100-1c5b-e4c65ffe13e1"),
    (TRIGGER, 2, 255, 1_795_165_200_000, "01a1f82f-1e80-00ff-f768-0f4aa5d51077"),
    (RERUN, 2, 255, 1_795_165_200_000, "01a1f82f-1e80-00ff-19dd-2b6b8a769165"),
    (REDRIVE, 2, 255, 1_795_165_200_000, "01a1f82f-1e80-00ff-10b8-85e2744edbc9"),
    (TASK, 2, 255, 1_795_165_200_000, "01a1f82f-1e80-00ff-c9a9-eb4def014621"),
    (TASK, 4, 65_535, 951_782_400_000, "00dd9aa6-e000-ffff-f298-31fd7b4b6ba2"),
    (TRIGGER, 5, 128, 253, "00000000-00fd-0080-e9c5-3636ded725bf"),
]


def job(index: int) -> bytes:
    return id_of(GOLDEN_PARTITIONS[index][0])


def test_golden_partitions() -> None:
    assert [(text, partition_of(id_of(text))) for text, _ in GOLDEN_PARTITIONS] == GOLDEN_PARTITIONS


def test_jobs_spread_evenly_over_the_partitions() -> None:
    counts = Counter(partition_of(number.to_bytes(16, "big")) for number in range(100 * PARTITIONS))
    assert set(counts) == set(range(PARTITIONS))
    assert max(counts.values()) < 150


@pytest.mark.parametrize(("kind", "index", "partition", "scheduled_ms", "expected"), GOLDEN_IDS)
def test_golden_execution_ids(
    kind: Kind, index: int, partition: int, scheduled_ms: int, expected: str
) -> None:
    cause = b"" if kind == FIRE else CAUSE
    found = execution_id(kind, job(index), partition, scheduled_ms, cause)
    assert text_of(found) == expected
    assert (scheduled_ms_of(found), partition_of_id(found)) == (scheduled_ms, partition)


def test_the_quick_spelling_of_a_fire_is_the_same() -> None:
    assert fire_id(job(3), 9, 123_456) == execution_id(FIRE, job(3), 9, 123_456)


def test_the_layout_is_that_of_the_design() -> None:
    parts = (b"trigger", job(0), (5_000).to_bytes(8, "big"), CAUSE)
    hashed = blake2b(b"".join(len(part).to_bytes(2, "big") + part for part in parts), digest_size=8).digest()
    expected = (5_000).to_bytes(6, "big") + (93).to_bytes(2, "big") + hashed
    assert execution_id(TRIGGER, job(0), 93, 5_000, CAUSE) == expected


def test_ids_sort_by_time_and_a_millisecond_has_a_first_one() -> None:
    early, late = fire_id(job(0), 255, 999), fire_id(job(1), 0, 1_000)
    assert early < first_id_at(1_000) <= late
    assert scheduled_ms_of(first_id_at(1_000)) == 1_000


def test_a_time_before_1970_has_no_id() -> None:
    with pytest.raises(OverflowError):
        fire_id(job(0), 1, -1)


def test_new_job_ids_are_uuids_of_version_7_that_sort_by_time() -> None:
    first, second = new_job_id(1_000), new_job_id(1_001)
    assert first < second
    assert new_job_id(1_000) != first
    read = uuid.UUID(bytes=first)
    assert (read.version, read.variant, read.int >> 80) == (7, uuid.RFC_4122, 1_000)


def test_ids_are_read_from_text() -> None:
    text = "3ece1804-d251-574b-8df3-2f3d8bb104d2"
    assert text_of(id_of(text.upper())) == text
    with pytest.raises(UsageError, match="parent: 'x' is not a UUID") as refusal:
        id_of("x", field="parent")
    assert refusal.value.field == "parent"
