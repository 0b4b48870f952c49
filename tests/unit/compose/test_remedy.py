"""One line with what to do, from what a process or the system said."""

from __future__ import annotations

import errno
import os

import pytest

from shardwheel.compose.remedy import last_words, remedy_of


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('FATAL:  could not bind: "Address already in use"\nHINT: …', "its port is taken"),
        ("java.io.IOException: No space left on device\n\tat java.base", "the disk is full"),
        ("It says nothing known.\nBut its last line is quoted.\n\n", "it said: But its last line is quoted."),
        (
            '{"event": "stopped", "role": "worker", "worker": "a-1", "level": "info"}',
            "it said: stopped (worker a-1)",
        ),
        ('{"shards": 3}', 'it said: {"shards": 3}'),
        ("[1]", "it said: [1]"),
        ("", ""),
    ],
)
def test_last_words(written: str, said: str) -> None:
    assert last_words(written).startswith(said)
    assert bool(last_words(written)) == bool(said)


def test_every_error_of_the_system_has_a_remedy() -> None:
    assert remedy_of(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))).startswith("the disk is full")
    assert "--data" in remedy_of(OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
