"""What the tick writes at once is what would be written one by one."""

from __future__ import annotations

import numpy as np

from shardwheel.ids import fire_id
from shardwheel.shard.forms import encode_fires, fire_ids
from shardwheel.wire import FORMAT_VERSION, FireKind, decode_fire, encode_fire


def test_the_ids_of_many_fires_are_those_of_each() -> None:
    jobs = [bytes(16), b"\xff" * 16, bytes(range(16))]
    partitions, times_ms = [0, 255, 7], [0, 2**43, 1_790_000_000_001]
    void = np.frombuffer(b"".join(jobs), "V16")
    made = fire_ids(void, np.array(partitions, np.uint16), np.array(times_ms, np.int64)).tolist()
    assert made == [fire_id(*one) for one in zip(jobs, partitions, times_ms, strict=True)]


def test_many_fires_written_at_once_say_what_each_says_alone() -> None:
    ids = [bytes([number]) * 16 for number in (0, 7, 255)]
    columns = ([0, 7, 255], [-(2**63), 1, 2**63 - 1], [0, 1_790_000_000_000, 2**43], [5, 6, 2**43 + 1])
    void = np.frombuffer(b"".join(ids), "V16")
    partitions, numbers, scheduled_ms, dues_ms = (np.array(column, np.int64) for column in columns)
    written = encode_fires(void[::-1], void, partitions.astype(np.uint16), numbers, scheduled_ms, dues_ms)
    heads = [(FORMAT_VERSION, FireKind.FIRE, name, job) for name, job in zip(ids[::-1], ids, strict=True)]
    alone = [(*head, *rest, 1) for head, rest in zip(heads, zip(*columns, strict=True), strict=True)]
    assert [decode_fire(value) for value in written] == [decode_fire(encode_fire(one)) for one in alone]
