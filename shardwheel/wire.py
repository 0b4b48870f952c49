"""What travels through Kafka: fires to the workers, results back. msgpack arrays, versioned, no user data.

A message of a later version may have further fields at the end: an older reader ignores them. It never
holds params or secrets: those are read at the claim, from the row. `encode_fire` takes a plain tuple, which
costs half of building a struct first; the field order is the struct's. The tick, which writes many fires at
once, fills in a form instead (`encode_fires`): the same message, with every number at its full width.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from shardwheel.errors import UsageError

FORMAT_VERSION = 1

_Kind = TypeVar("_Kind")


class FireKind(IntEnum):
    """What a message on a job topic says about a scheduled time, or a range of them."""

    FIRE = 0
    SKIP = 1
    SKIP_RANGE = 2
    CATCH_UP_RANGE = 3


class Fire(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message on a job topic. `schedule_no` is 0 for a waiting execution; `due_ms` is the fire time.
    Ranges run from `scheduled_ms` to `until_ms`, both included, and hold `count` times."""

    version: int
    kind: int
    execution_id: bytes
    job_id: bytes
    partition: int
    schedule_no: int
    scheduled_ms: int
    due_ms: int
    attempt: int
    trace: bytes = b""
    reason: str = ""
    until_ms: int = 0
    count: int = 0


class Outcome(IntEnum):
    """What a worker reports of an attempt, or (CRASHED) the sweep of a worker that fell silent. What is
    made of it is the result processor's decision."""

    SUCCEEDED = 0
    FAILED = 1
    RETRYABLE = 2
    FATAL = 3
    TIMED_OUT = 4
    RELEASED = 5
    CANCELLED = 6
    CRASHED = 7


class Result(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message on the results topic: how an attempt ended. Fenced by attempt and claim token. Tenant and
    task are told again for the tallies of breakers and retry budgets, which need no look at the row then; the
    DAG's run, so that it can be locked before the row."""

    version: int
    execution_id: bytes
    job_id: bytes
    partition: int
    attempt: int
    claim_token: bytes
    outcome: int
    started_ms: int
    ended_ms: int
    worker: str
    error_class: str = ""
    message: str = ""
    traceback: str = ""
    output: bytes = b""
    retry_after_ms: int = -1
    tenant_id: str = ""
    task: str = ""
    dag_run_id: bytes = b""


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
_BLANK = np.array(
    (
        *(_ARRAY_OF_9, FORMAT_VERSION, FireKind.FIRE, _BYTES_16, bytes(16), _BYTES_16, bytes(16)),
        *(_UINT16, 0, _INT64, 0, _INT64, 0, _INT64, 0, 1),
    ),
    _FORM,
).tobytes()

encode_fire = msgspec.msgpack.Encoder().encode
_fire_decoder = msgspec.msgpack.Decoder(Fire)
_result_decoder = msgspec.msgpack.Decoder(Result)


def encode_fires(
    execution_ids: NDArray[np.void],
    job_ids: NDArray[np.void],
    partitions: NDArray[np.uint16],
    schedule_nos: NDArray[np.int64],
    scheduled_ms: NDArray[np.int64],
    dues_ms: NDArray[np.int64],
) -> list[bytes]:
    """First attempts of scheduled times, each as `encode_fire` would tell it."""
    forms = np.frombuffer(bytearray(_BLANK) * len(job_ids), _FORM)
    forms["execution_id"] = execution_ids
    forms["job_id"] = job_ids
    forms["partition"] = partitions
    forms["schedule_no"] = schedule_nos
    forms["scheduled_ms"] = scheduled_ms
    forms["due_ms"] = dues_ms
    encoded: list[bytes] = forms.view(f"V{_FORM.itemsize}").tolist()
    return encoded


def encode_result(result: Result) -> bytes:
    return encode_fire(result)


def decode_fire(value: bytes) -> Fire:
    """A message of a job topic; `UsageError` if it is not one (the caller counts it and goes on)."""
    return _decode(_fire_decoder, value)


def decode_result(value: bytes) -> Result:
    return _decode(_result_decoder, value)


def _decode(decoder: msgspec.msgpack.Decoder[_Kind], value: bytes) -> _Kind:
    try:
        return decoder.decode(value)
    except msgspec.DecodeError as error:
        raise UsageError(f"not a message of ours: {error}") from error
