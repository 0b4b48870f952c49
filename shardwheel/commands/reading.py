"""What commands take as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from shardwheel.errors import UsageError


def json_of(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"{field}: {text!r} is not JSON ({error})", field=field) from error
