"""What went wrong, in one line with what to do about it: from an OSError, or from what a process wrote.

Only causes that a user can mend are named. Everything else is left in its own words.
"""

from __future__ import annotations

import errno
from typing import Any

import msgspec

_OF_ERRORS = {
    errno.ENOSPC: "the disk is full: free some space, or choose another folder with --data",
    errno.EDQUOT: "your quota is used up: free some space, or choose another folder with --data",
    errno.EROFS: "it is read-only: choose another folder with --data",
    errno.EACCES: "choose a folder that you may write to with --data",
    errno.EPERM: "choose a folder that you may write to with --data",
    errno.ENOTDIR: "a file is in the way: choose another folder with --data",
    errno.ENOMEM: "memory is used up: stop something, or use fewer --shards and --workers",
}

# As the servers, the JVM and Python write them, in lower case.
_OF_WORDS = {
    "address already in use": "its port is taken: stop what listens there, or choose another",
    "no space left on device": _OF_ERRORS[errno.ENOSPC],
    "check free disk space": _OF_ERRORS[errno.ENOSPC],
    "disk quota exceeded": _OF_ERRORS[errno.EDQUOT],
    "read-only file system": _OF_ERRORS[errno.EROFS],
    "cannot allocate memory": _OF_ERRORS[errno.ENOMEM],
    "insufficient memory for the java runtime": _OF_ERRORS[errno.ENOMEM],
    "java.lang.outofmemoryerror": _OF_ERRORS[errno.ENOMEM],
    "are incompatible with server": "the data is of another version: choose another folder with --data",
}

_LONGEST_QUOTE = 200
# What every line of a service's log has.
_OF_EVERY_LINE = {"event", "level", "role", "timestamp"}


def remedy_of(error: OSError) -> str:
    return _OF_ERRORS.get(error.errno or 0, "choose another folder with --data")


def last_words(written: str) -> str:
    """The remedy if what a process wrote names a known cause, else its last line; empty if there is none."""
    lowered = written.lower()
    for words, remedy in _OF_WORDS.items():
        if words in lowered:
            return remedy
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    return f"it said: {_event(lines[-1])[:_LONGEST_QUOTE]}" if lines else ""


def _event(line: str) -> str:
    """Of a line that our own services log: what happened, without who says it and when."""
    try:
        said = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return line
    facts = ", ".join(f"{name} {value}" for name, value in said.items() if name not in _OF_EVERY_LINE)
    return f"{said.get('event', line)}{f' ({facts})' if facts else ''}"
