"""The fields that contract.md promises of each benchmark's JSON, and what compares a result with them.

A name alone: it is there. A mapping: it is there, with at least these below it. A list: of at least one such.
"""

from __future__ import annotations

from typing import Any

_HELD = {"10000", "100000", "1000000"}
_BATCHES = {"100", "500"}
_PAUSES = {
    "gap_p50_s",
    "gap_max_s",
    "late_p99_s",
    "lost",
    "skipped",
    "doubled_publishes",
    "standby",
}
_CONNECTION = {"p50_ms", "p99_ms", "per_s"}

CONTRACT: dict[str, Any] = {
    "wheel": {
        "held": {},
        "bytes_per_entry": _HELD,
        "insert_us": _HELD,
        "cancel_us": _HELD,
        "advance_us_per_due": _HELD,
        "touches_per_due": _HELD,
        "longest_advance_ms": _HELD,
        "heapq": {"insert_us": _HELD, "pop_us": _HELD},
        "cron_next_us": {"ours", "croniter", "cronsim"},
    },
    "tick": {"held", "rate", "p50_ms", "p99_ms", "max_ms", "bare_ack_p99_ms", "missed", "doubled"},
    "fire": {
        "fires_per_s": {},
        "bare_produce_per_s": {},
        "ratio": {},
        "by_shards": {"1", "2", "3"},
    },
    "coldstart": [{"jobs", "seconds", "copy_seconds", "ratio", "rss_bytes_per_job"}],
    "failover": _PAUSES,
    "move": _PAUSES,
    "claim": {"claims_per_s": _BATCHES, "settles_per_s": _BATCHES},
    "e2e": {"per_s", "p50_ms", "p99_ms", "raw_sql_per_s", "ratio", "lost", "doubled"},
    "enqueue": {
        "connections": {"1": _CONNECTION, "16": _CONNECTION, "64": _CONNECTION},
        "batch100_p50_ms": {},
        "batch100_p99_ms": {},
        "batch_jobs_per_s": {},
        "status_p50_ms": {},
        "status_p99_ms": {},
        "status_per_s": {},
        "in_wheel_p99_ms": {},
        "in_wheel_without_poke_max_ms": {},
        "bare_insert_per_s": {},
        "ratio": {},
    },
    "peers": [
        {"peer", "version", "fire_per_s", "lateness_p99_ms", "recurring", "restart_s", "e2e_per_s", "cannot"}
    ],
}
_MACHINE = {"cpu", "cores", "system", "python", "load_1_min", "measured_at", "versions"}


def missing(result: Any, shape: Any, path: str = "") -> list[str]:
    """The promised fields that a result does not have."""
    if isinstance(shape, list):
        entries = [missing(one, shape[0], f"{path}[]") for one in result]
        return [name for entry in entries for name in entry] if result else [f"{path}[]"]
    below = shape if isinstance(shape, dict) else {name: {} for name in shape}
    gone = [f"{path}.{name}" for name in below if name not in result]
    deeper = [
        missing(result[name], inner, f"{path}.{name}") for name, inner in below.items() if name in result
    ]
    return gone + [name for names in deeper for name in names]


def assert_contract(name: str, result: Any, *, held: set[str] | None = None) -> None:
    """`held`: the numbers that a tiny run of `wheel` has instead of the promised ones."""
    shape = CONTRACT[name]
    if held is not None:
        shape = _with_held(shape, held)
    assert missing(result, shape, name) == []
    for entry in result if isinstance(result, list) else [result]:
        assert missing(entry["machine"], _MACHINE, "machine") == []


def _with_held(shape: Any, held: set[str]) -> Any:
    if shape is _HELD:
        return held
    if isinstance(shape, dict):
        return {name: _with_held(inner, held) for name, inner in shape.items()}
    return shape
