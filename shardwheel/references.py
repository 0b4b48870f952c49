"""A secret that a setting holds, or says where it is."""

from __future__ import annotations

import os
from pathlib import Path

from shardwheel.errors import UsageError


def referred(value: str, field: str) -> str:
    """The value itself, or what `env:NAME` or `file:PATH` name."""
    kind, _, name = value.partition(":")
    if kind == "env":
        if not os.environ.get(name):
            raise UsageError(f"{field}: the environment has no {name}; set it, or name another", field=field)
        return os.environ[name]
    if kind == "file":
        try:
            return Path(name).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UsageError(
                f"{field}: {name} can't be read ({error.strerror}); mend that", field=field
            ) from error
    return value
