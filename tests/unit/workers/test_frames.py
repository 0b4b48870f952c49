"""Frames: whole or not at all, and never longer than their limit."""

from __future__ import annotations

from typing import Any

import pytest

from shardwheel.errors import UsageError
from shardwheel.execution import Claimed
from shardwheel.isolation import Limits
from shardwheel.workers.frames import (
    FRAME_LIMIT_BYTES,
    Answer,
    Call,
    Ended,
    Finished,
    Frame,
    Order,
    Output,
    Ready,
    Setup,
    Started,
    Stop,
    channel_pair,
    decode,
    encode,
    receive,
)

CLAIMED = Claimed(bytes(16), bytes(16), 7, "t", "task", b"{}", 1, 2, 3, 0, 4, b"", "trace")


@pytest.mark.parametrize(
    "frame",
    [
        Setup("handlers", "nobody"),
        Ready("", ["a warning"]),
        Order(CLAIMED, Limits(cpu_s=3), 1.5, 0.5),
        Started(7),
        Output(b"\xff\0"),
        Call("log", ["info", 1.5, b"bytes", None]),
        Answer({"a": [1]}, "", ""),
        Stop(2.0),
        Finished("value", output=b"1"),
        Ended(None, -9, 0.1, 5, True, False),
        Ended(Finished("failed", "E", "m", "t", b"", 5), 0),
    ],
)
def test_a_frame_arrives_as_it_was_sent(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


def test_the_longest_frame_passes_through_a_channel_and_a_longer_one_is_refused() -> None:
    ours, theirs = channel_pair()
    with ours, theirs:
        longest = Output(bytes(FRAME_LIMIT_BYTES - len(encode(Output(bytes(70_000)))) + 70_000))
        assert len(encode(longest)) == FRAME_LIMIT_BYTES
        ours.sendall(encode(longest))
        ours.sendall(encode(Started(1)))
        assert receive(theirs) == longest
        assert receive(theirs) == Started(1)
    with pytest.raises(UsageError, match=f"at most {FRAME_LIMIT_BYTES} pass"):
        encode(Output(bytes(FRAME_LIMIT_BYTES)))


def test_the_end_of_a_channel_is_none() -> None:
    ours, theirs = channel_pair()
    with theirs:
        ours.close()
        assert receive(theirs) is None


@pytest.mark.parametrize("packet", [b"\xc1", b"\x91\xa4none", b"\x92\xa7started\xa1x", b"\x92\xa7started"])
def test_what_is_no_frame_is_refused(packet: Any) -> None:
    with pytest.raises(UsageError, match="not a frame of ours"):
        decode(packet)
