"""Ids and messages of many fires at once, spelled out for the tick's sake. Pure.

`ids.fire_id` and `wire.encode_fire` say what they are, one by one, and tests hold the two together. They are
here, and not beside those, because they want numpy, which nobody but a shard needs.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shardwheel.ids import FIRE, ID_LENGTH, TIME_LENGTH
from shardwheel.wire import FORMAT_VERSION, FireKind

# How the hash of every fire begins: a copy of it costs half of a new one.
_BEGUN: Final = blake2b(FIRE + ID_LENGTH, digest_size=8)
# And how it goes on, and what becomes of it.
_HASHED: Final = np.dtype([("job_id", "V16"), ("length", "V2"), ("scheduled_ms", ">i8")])
_BLANK_PARTS: Final = bytes(16) + TIME_LENGTH + bytes(8)
_MADE: Final = np.dtype([("time_and_partition", ">i8"), ("hash", "V8")])

# A first attempt's fire in msgpack, byte by byte: an array of 9; two small numbers; two strings of 16 bytes;
# a number of 2 bytes, three of 8; a small number. What begins with an underscore says which of these follows.
_FORM = np.dtype(
    [
        ("_array", "u1"),
        ("version", "u1"),
        ("kind", "u1"),
        ("_bytes_1", "V2"),
        ("execution_id", "V16"),
        ("_bytes_2", "V2"),
        ("job_id", "V16"),
        ("_uint16", "u1"),
        ("partition", ">u2"),
        ("_int64_1", "u1"),
        ("schedule_no", ">i8"),
        ("_int64_2", "u1"),
        ("scheduled_ms", ">i8"),
        ("_int64_3", "u1"),
        ("due_ms", ">i8"),
        ("attempt", "u1"),
    ]
)
_ARRAY_OF_9, _BYTES_16, _UINT16, _INT64 = 0x99, b"\xc4\x10", 0xCD, 0xD3
_BLANK_FIRE = np.array(
    (
        *(_ARRAY_OF_9, FORMAT_VERSION, FireKind.FIRE, _BYTES_16, bytes(16), _BYTES_16, bytes(16)),
        *(_UINT16, 0, _INT64, 0, _INT64, 0, _INT64, 0, 1),
    ),
    _FORM,
).tobytes()


def fire_ids(
    job_ids: NDArray[np.void], partitions: NDArray[np.uint16], scheduled_ms: NDArray[np.int64]
) -> NDArray[np.void]:
    """`fire_id` of each: only the hash itself is a step of its own."""
    parts = np.frombuffer(bytearray(_BLANK_PARTS) * len(job_ids), _HASHED)
    parts["job_id"] = job_ids
    parts["scheduled_ms"] = scheduled_ms
    begun, digests = _BEGUN.copy, []
    for part in parts.view(f"V{_HASHED.itemsize}").tolist():
        hashed = begun()
        hashed.update(part)
        digests.append(hashed.digest())
    made = np.empty(len(job_ids), _MADE)
    made["time_and_partition"] = scheduled_ms << 16 | partitions
    made["hash"] = np.frombuffer(b"".join(digests), "V8")
    return made.view("V16")


def encode_fires(
    execution_ids: NDArray[np.void],
    job_ids: NDArray[np.void],
    partitions: NDArray[np.uint16],
    schedule_nos: NDArray[np.int64],
    scheduled_ms: NDArray[np.int64],
    dues_ms: NDArray[np.int64],
) -> list[bytes]:
    """First attempts of scheduled times, each as `encode_fire` would tell it."""
    forms = np.frombuffer(bytearray(_BLANK_FIRE) * len(job_ids), _FORM)
    forms["execution_id"] = execution_ids
    forms["job_id"] = job_ids
    forms["partition"] = partitions
    forms["schedule_no"] = schedule_nos
    forms["scheduled_ms"] = scheduled_ms
    forms["due_ms"] = dues_ms
    encoded: list[bytes] = forms.view(f"V{_FORM.itemsize}").tolist()
    return encoded
