"""The name of every run, computable by anyone from (kind, job, scheduled time): why a repeat is harmless.

An execution id is 16 bytes, read as a UUID:

    48 bits scheduled time in ms | 16 bits partition | 64 bits of blake2b over the length-prefixed parts

So ids sort by time, name their partition and month, and are the same for all attempts. The parts are
the kind, the job's id, the scheduled time (8 bytes) and, for all kinds but FIRE, the id that tells two
of them at the same time apart: the request's for a trigger, re-run or redrive, the DAG run's for a task.

Ids are `bytes` inside the system (half the size of a `UUID`, and quicker); text at its edges only.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from hashlib import blake2b
from typing import Final, NewType

from shardwheel.errors import UsageError

# A kind is stored here as it is hashed: its length before it.
Kind = NewType("Kind", bytes)

FIRE: Final = Kind(b"\x00\x04fire")  # a time of the schedule: fired, settled, caught up or backfilled
TRIGGER: Final = Kind(b"\x00\x07trigger")  # run now, by request
RERUN: Final = Kind(b"\x00\x05rerun")  # a backfill of a time that ran before, by request
REDRIVE: Final = Kind(b"\x00\x07redrive")  # a dead letter's second chance, by request
TASK: Final = Kind(b"\x00\x04task")  # a DAG's task: the run's scheduled time and the run's id

# Where the chance in new ids comes from: a scheduler in memory has its own, and is the same every time.
chance: ContextVar[Callable[[int], bytes]] = ContextVar("chance", default=os.urandom)

ID_LENGTH: Final = b"\x00\x10"
TIME_LENGTH: Final = b"\x00\x08"


def fire_id(job_id: bytes, partition: int, scheduled_ms: int) -> bytes:
    """The id of a scheduled run."""
    return execution_id(FIRE, job_id, partition, scheduled_ms)


def execution_id(kind: Kind, job_id: bytes, partition: int, scheduled_ms: int, cause: bytes = b"") -> bytes:
    """The id of a run. `cause` is the request's or DAG run's id (16 bytes); FIRE has none."""
    time = scheduled_ms.to_bytes(8, "big")
    parts = kind + ID_LENGTH + job_id + TIME_LENGTH + time
    if cause:
        parts += len(cause).to_bytes(2, "big") + cause
    return time[2:] + partition.to_bytes(2, "big") + blake2b(parts, digest_size=8).digest()


def scheduled_ms_of(execution_id: bytes) -> int:
    return int.from_bytes(execution_id[:6], "big")


def partition_of_id(execution_id: bytes) -> int:
    return int.from_bytes(execution_id[6:8], "big")


def first_id_at(scheduled_ms: int) -> bytes:
    """The smallest id of this millisecond: the border of a month's table, or of a time range."""
    return scheduled_ms.to_bytes(6, "big") + bytes(10)


def new_job_id(now_ms: int) -> bytes:
    """A new job's id: a version 7 UUID (time, then chance), so that inserts land side by side."""
    drawn = chance.get()(10)
    high = now_ms.to_bytes(6, "big") + bytes((0x70 | drawn[0] & 0x0F, drawn[1]))
    return high + bytes((0x80 | drawn[2] & 0x3F,)) + drawn[3:]


def new_request_id() -> bytes:
    """Names a request that nobody named."""
    return chance.get()(16)


def id_of(text: str, *, field: str = "id") -> bytes:
    """Read an id from the outside: any UUID in its usual spelling."""
    try:
        return uuid.UUID(text).bytes
    except (ValueError, AttributeError, TypeError):
        raise UsageError(
            f"{field}: {text!r:.80} is not a UUID; copy the id as it was given", field=field
        ) from None


def text_of(id_bytes: bytes) -> str:
    """As `str(uuid.UUID(bytes=…))` has it, in a fifth of its time: an answer may hold a thousand."""
    digits = id_bytes.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
