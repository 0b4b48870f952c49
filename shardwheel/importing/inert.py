"""A pickle looked at without bringing anything in it to life.

APScheduler's dumps hold times, zones and cron fields as pickles. Whatever class or function one names becomes
a dead stand-in that only remembers what it was called with: nothing is imported, nothing is called.
"""

from __future__ import annotations

import binascii
import io
import pickle  # noqa: TID251  (nothing it names is ever brought to life)
from base64 import b64decode
from datetime import datetime, timedelta
from typing import Any

from shardwheel.importing.python_source import UnreadableError

LONGEST_BYTES = 65_536


class Inert:
    """`origin` names what it stands for, `args` what that was called with, `state` what it was given."""

    origin = ""
    args: tuple[Any, ...] = ()
    state: Any = None

    def __new__(cls, *args: Any, **_: Any) -> Inert:
        made = object.__new__(cls)
        made.args = args
        return made

    def __call__(self, *args: Any) -> Inert:
        """What a looked-up function is given: `getattr(ZoneInfo, "_unpickle")("Europe/Berlin", True)`."""
        made = object.__new__(type(self))
        made.args = args
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return type(name, (Inert,), {"origin": f"{module}.{name}"})

    def persistent_load(self, pid: Any) -> Any:
        raise UnreadableError("the dump refers to something outside itself")


def looked_at(text: str) -> Any:
    """The value of a base64 text as plain values and stand-ins."""
    if len(text) > LONGEST_BYTES:
        raise UnreadableError("a pickled value is too large to be looked at")
    try:
        return _plain(_Reader(io.BytesIO(b64decode(text, validate=True))).load())
    except UnreadableError:
        raise
    except (pickle.UnpicklingError, binascii.Error, EOFError, ValueError, TypeError, KeyError) as error:
        raise UnreadableError(f"a pickled value can't be looked at ({error})") from error
    except (AttributeError, IndexError, MemoryError, OverflowError, RecursionError) as error:
        raise UnreadableError("a pickled value can't be looked at") from error


def _plain(value: Any) -> Any:
    """Times and zones become themselves; anything else stays dead."""
    if not isinstance(value, Inert):
        return value
    if value.origin == "datetime.timedelta":
        return timedelta(*value.args)
    if value.origin == "datetime.datetime" and isinstance(value.args[0], bytes):
        zone = value.args[1] if len(value.args) > 1 else None
        return datetime(value.args[0]), zone_named(zone)  # type: ignore[call-arg,arg-type]
    return value


def zone_named(value: Any) -> str | None:
    """The zone that a stand-in of zoneinfo's, pytz's or datetime's zones names."""
    if isinstance(value, Inert) and value.args and isinstance(value.args[0], str):
        return value.args[0]
    if isinstance(value, Inert) and value.origin in ("pytz._UTC", "datetime.timezone"):
        return "UTC"
    return None
