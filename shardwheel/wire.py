"""What travels through Kafka: fires to the workers, results back. msgpack arrays, versioned, no user data.

A message of a later version may have further fields at the end: an older reader ignores them. It never
holds params or secrets: those are read at the claim, from the row. `encode_fire` takes a plain tuple, which
costs half of building a struct first; the field order is the struct's. The tick, which writes many fires at
once, fills in a form instead (`shard.forms`): the same message, with every number at its full width.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import msgspec

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


encode_fire = msgspec.msgpack.Encoder().encode
_fire_decoder = msgspec.msgpack.Decoder(Fire)
_result_decoder = msgspec.msgpack.Decoder(Result)


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
