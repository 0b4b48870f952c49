"""What the worker, a keeper and its child say to each other: msgpack arrays, one frame a packet.

Their sockets are Unix sockets of the kind that keeps packets whole (SOCK_SEQPACKET): a frame arrives as it
was sent or not at all, and there is no length to read, to trust, or to get out of step with. A frame has a
limit; a longer one is refused by whoever would send it.

    worker ── Order, Answer, Stop ──▸ keeper ── Order, Answer ──▸ child
    worker ◂── Started, Output, Call, Ended ── keeper ◂── Started, Call, Finished ── child

Nothing is pickled: what comes from a child can be wrong, but it can't be code.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from shardwheel.errors import UsageError
from shardwheel.execution import Claimed
from shardwheel.isolation import Limits

FRAME_LIMIT_BYTES = 256 * 1024
OUTPUT_CHUNK_BYTES = 16 * 1024


class Setup(msgspec.Struct, tag="setup", array_like=True, frozen=True):
    """The fork server's first packet: what to import, and whom its children become ("": stay who we are)."""

    module: str
    user: str = ""


class Ready(msgspec.Struct, tag="ready", array_like=True, frozen=True):
    """Its answer: `refused` says why it can't serve; `warnings` what an operator should know once."""

    refused: str = ""
    warnings: list[str] = []


class Order(msgspec.Struct, tag="order", array_like=True, frozen=True):
    """One attempt, for a keeper and its child. Times are from now on: the processes share no clock's zero."""

    claimed: Claimed
    limits: Limits
    timeout_s: float
    grace_s: float


class Started(msgspec.Struct, tag="started", array_like=True, frozen=True):
    """The child has its order: from now on the attempt counts, whatever becomes of it."""

    pid: int


class Output(msgspec.Struct, tag="output", array_like=True, frozen=True):
    data: bytes


class Call(msgspec.Struct, tag="call", array_like=True, frozen=True):
    """A method of `ctx` that only the worker can serve."""

    method: str
    arguments: list[Any]


class Answer(msgspec.Struct, tag="answer", array_like=True, frozen=True):
    """What the method returned; or, if `error_class` is not empty, what it raised."""

    value: Any = None
    error_class: str = ""
    message: str = ""


class Stop(msgspec.Struct, tag="stop", array_like=True, frozen=True):
    """End the attempt: SIGTERM to its group now, SIGKILL to all of it after `grace_s`."""

    grace_s: float


class Finished(msgspec.Struct, tag="finished", array_like=True, frozen=True):
    """What the handler returned or raised; `kind` is value, retryable, fatal or failed."""

    kind: str
    error_class: str = ""
    message: str = ""
    traceback: str = ""
    output: bytes = b""
    retry_after_ms: int = -1


class Ended(msgspec.Struct, tag="ended", array_like=True, frozen=True):
    """The child and all that it started are gone. `exit_code` is negative for a signal, as in subprocess."""

    finished: Finished | None
    exit_code: int
    cpu_s: float = 0.0
    dropped_bytes: int = 0
    out_of_memory: bool = False
    overdue: bool = False


Frame = Setup | Ready | Order | Started | Output | Call | Answer | Stop | Finished | Ended

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    packet = _encoder.encode(frame)
    if len(packet) > FRAME_LIMIT_BYTES:
        name = type(frame).__name__.lower()
        raise UsageError(
            f"{name}: it has {len(packet)} bytes as a frame; at most {FRAME_LIMIT_BYTES} pass: keep large "
            "values elsewhere and hand on a reference"
        )
    return packet


def decode(packet: bytes) -> Frame:
    try:
        return _decoder.decode(packet)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not a frame of ours: {error}") from error


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of one channel, both with room for the largest frame."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * FRAME_LIMIT_BYTES)
    return pair


def receive(channel: socket.socket) -> Frame | None:
    """The next frame; None at the end, which is also how a killed peer shows."""
    try:
        packet = channel.recv(FRAME_LIMIT_BYTES)
    except ConnectionError:
        return None
    return decode(packet) if packet else None
