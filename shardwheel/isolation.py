"""What an isolated handler may use: CPU time, memory, open files, output. Pure: it checks, it sets nothing.

    @handler("report.build", isolated=True, cpu_s=30, memory_mb=256)
    def build(ctx, params): ...

workers/confine.py puts them into force, in the child. All but the output hold for each process that the
handler starts, not for their sum: that would take a cgroup, which is not ours to make. docs/isolation.md says
what each of them protects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shardwheel.errors import UsageError

# Name → the least, the most, and in words what it counts.
RANGES = {
    "cpu_s": (1, 86_400, "whole seconds of CPU time"),
    "memory_mb": (16, 1_048_576, "MiB of memory on top of the imported module's"),
    "open_files": (16, 65_536, "open files"),
    "output_kb": (0, 1_024, "KiB of standard output and error"),
}


class Limits(NamedTuple):
    """Of one isolated handler. Without `network` it has none: no route, not even to this machine."""

    cpu_s: int = 60
    memory_mb: int = 512
    open_files: int = 256
    output_kb: int = 64
    network: bool = False


def limits_of(isolated: bool, given: dict[str, Any]) -> Limits | None:
    """The limits as given to `@handler`, None for what was not; None for a handler that is not isolated."""
    said = {name: value for name, value in given.items() if value is not None}
    if not isolated:
        for name in said:
            raise UsageError(f"{name}: only an isolated handler has it; say isolated=True", field=name)
        return None
    for name, value in said.items():
        _check(name, value)
    return Limits(**said)


def _check(name: str, value: Any) -> None:
    if name == "network":
        if not isinstance(value, bool):
            raise UsageError(f"network: {value!r} is neither True nor False", field=name)
        return
    least, most, counted = RANGES[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name}: {value!r} is not {least} to {most} {counted}", field=name)
