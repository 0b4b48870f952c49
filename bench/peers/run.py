"""`shardctl bench peers`: all rows of all peers, one after the other, each alone on the machine.

One durable embedded PostgreSQL for everybody, a fresh database for each row. A row that hangs is ended by
force, one that breaks is told by its last word; the other rows go on, and each is kept once it is done.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from shardwheel.bench.embedded import embedded_postgres
from shardwheel.bench.measure import machine
from shardwheel.bench.peers.environments import ROOT, python_of
from shardwheel.bench.peers.kept import FAILED, Kept
from shardwheel.bench.peers.notes import count_notes
from shardwheel.bench.peers.peer import PEERS
from shardwheel.bench.peers.remains import MARK, end_remains
from shardwheel.bench.peers.work import Row, Size
from shardwheel.bench.versions import versions
from shardwheel.compose.server import tied

# A row has several limits, one after the other: two to load, one to wait for a moment, one to run.
_LIMITS: Final = 4
# Beyond these: to start servers, and to end in good order.
_SLACK_S: Final = 180.0
_END_S: Final = 20.0
# Row → the field of its figure, and the figure's name in what the driver answers.
_FIELDS: Final = {
    "herd": ("fire_per_s", "fire_per_s"),
    "pace": ("lateness_p99_ms", "lateness_p99_ms"),
    "once": ("e2e_per_s", "per_s"),
    "repeated": ("e2e_recurring_per_s", "per_s"),
}
Report = list[dict[str, Any]]
Say = Callable[[str], None]
Measure = Callable[[str, str, int], Row]


def bench_peers(
    peers: Sequence[str], rows: Sequence[str], size: Size, say: Say, keep: Path | None = None
) -> Report:
    kept = Kept(keep, {"commit": versions().get("commit"), "size": list(size)})
    with embedded_postgres(say) as dsn:
        return measure_peers(dsn, peers, rows, size, say, kept)


def measure_peers(
    dsn: str, peers: Sequence[str], rows: Sequence[str], size: Size, say: Say, kept: Kept
) -> Report:
    pythons = {peer: python_of(PEERS[peer][1], say) for peer in peers}
    with tempfile.TemporaryDirectory(prefix="shardwheel-peers-") as folder:

        def measure(peer: str, row: str, count: int) -> Row:
            known = kept.find(peer, row, count)
            if known is not None:
                say(f"{peer}: {row}: kept from before: {_told(known)}")
                return known
            say(f"{datetime.now(UTC):%H:%M:%S} {peer}: {row}{f', {count:,} jobs' if count else ''}")
            found = _contained(dsn, pythons[peer], Path(folder), peer, row, count, size)
            say(f"{peer}: {row}: {_told(found)}")
            kept.add(peer, row, count, found)
            return found

        return [measure_peer(peer, rows, size, measure) for peer in peers]


def _contained(dsn: str, python: str, folder: Path, peer: str, row: str, count: int, size: Size) -> Row:
    """Whatever goes wrong is this row's: the others' figures must not go with it."""
    try:
        with _database(dsn) as own:
            return _drive(python, own, folder, peer, row, count, size)
    except Exception as error:
        return {"unfinished": f"{FAILED}{type(error).__name__}: {error}"}


def measure_peer(peer: str, rows: Sequence[str], size: Size, measure: Measure) -> dict[str, Any]:
    """A peer's entry of the report; what it can't, or did not finish, is in `cannot`."""
    about = measure(peer, "about", 0)
    entry: dict[str, Any] = {
        "peer": peer,
        "version": about.get("version", ""),
        "settings": about.get("settings", ""),
        "durable": about.get("durable", True),
        "fire_per_s": None,
        "lateness_p99_ms": None,
        "recurring": {},
        "restart_s": None,
        "e2e_per_s": None,
        "e2e_recurring_per_s": None,
        "cannot": dict(about.get("cannot", {})),
    }
    for row in rows:
        if row not in entry["cannot"]:
            _note(entry, row, size, lambda row, count: measure(peer, row, count))
    return entry | {"machine": machine()}


def _note(entry: dict[str, Any], row: str, size: Size, measure: Callable[[str, int], Row]) -> None:
    if row == "recurring":
        _note_recurring(entry, size, measure)
    elif row == "restart":
        _note_restart(entry, size, measure)
    else:
        found = measure(row, 0)
        field, name = _FIELDS[row]
        # Whoever was not done counts as fast as it was until then.
        entry[field] = found.get(name, found.get("started_per_s"))
        entry.setdefault("details", {})[row] = _figures(found)
        _note_unfinished(entry, row, found)


def _note_recurring(entry: dict[str, Any], size: Size, measure: Callable[[str, int], Row]) -> None:
    for count in size.recurring:
        found = measure("recurring", count)
        entry["recurring"][str(count)] = _figures(found) or None
        _note_unfinished(entry, f"recurring {count}", found)
        if "restart_s" in found:
            entry |= {"restart_s": found["restart_s"], "restart_held": count}
        elif "restart_unfinished" in found:
            entry["cannot"][f"restart {count}"] = found["restart_unfinished"]
        if "unfinished" in found:
            # More of the same takes longer still.
            rest = [other for other in size.recurring if other > count]
            entry["cannot"] |= {f"recurring {other}": f"not tried: {count:,} were too many" for other in rest}
            return


def _note_restart(entry: dict[str, Any], size: Size, measure: Callable[[str, int], Row]) -> None:
    """A restart is part of holding recurring jobs: asked for alone, the largest number of them."""
    if not entry["recurring"]:
        found = measure("recurring", size.recurring[-1])
        entry |= {"restart_s": found.get("restart_s"), "restart_held": size.recurring[-1]}
        _note_unfinished(entry, "restart", found)


def _note_unfinished(entry: dict[str, Any], row: str, found: Row) -> None:
    if "unfinished" in found:
        entry["cannot"][row] = found["unfinished"]


_ABOUT: Final = (
    *("version", "settings", "durable", "cannot", "unfinished", "restart_unfinished"),
    "started_per_s",
)


def _figures(found: Row) -> Row:
    return {name: value for name, value in found.items() if name not in _ABOUT}


def _told(found: Row) -> str:
    if "unfinished" in found:
        return str(found["unfinished"])
    return ", ".join(f"{name} {value}" for name, value in _figures(found).items()) or "known"


@contextmanager
def _database(dsn: str) -> Iterator[str]:
    """A database that holds nothing of ours or anybody's."""
    name = f"peer_{os.getpid()}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        # What the row before left to be written is not this one's to pay for.
        connection.execute("CHECKPOINT")
        try:
            yield dsn.rpartition("/")[0] + f"/{name}"
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _drive(python: str, dsn: str, folder: Path, peer: str, row: str, count: int, size: Size) -> Row:
    """The driver in its own process group; by force, and with how far it got, if it hangs."""
    with tempfile.TemporaryDirectory(prefix=f"{peer}-", dir=folder, ignore_cleanup_errors=True) as own:
        wish = {"peer": peer, "row": row, "count": count, "dsn": dsn, "folder": own, "size": list(size)}
        # Should we be killed, it ends by its own way down.
        command = tied([python, "-m", "shardwheel.bench.peers.drive", json.dumps(wish)], signal.SIGINT)
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", MARK: own}
        # Into files: a pipe would be waited for as long as anybody that the driver left behind holds it.
        out, err = Path(own) / "out", Path(own) / "err"
        with out.open("wb") as its_out, err.open("wb") as its_err:
            driver = subprocess.Popen(command, env=environment, cwd=own, stdout=its_out, stderr=its_err)
        limit_s = _LIMITS * size.limit_s + _SLACK_S
        try:
            driver.wait(limit_s)
        except subprocess.TimeoutExpired:
            noted = count_notes(Path(own) / "notes")
            return {"unfinished": f"hung: ended by force after {limit_s:g} s, {noted:,} started"}
        finally:
            _end(driver)
            end_remains(own)
        if driver.returncode:
            return {"unfinished": f"{FAILED}{_last_line(err.read_bytes())}"}
        found: Row = json.loads(out.read_bytes().splitlines()[-1])
        return found


def _end(driver: subprocess.Popen[bytes]) -> None:
    """First by a signal that lets it end its children, which lead groups of their own."""
    for how in (signal.SIGINT, signal.SIGKILL):
        if driver.poll() is None:
            os.killpg(driver.pid, how)
            with suppress(subprocess.TimeoutExpired):
                driver.wait(_END_S)


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "without a word"


def peers_of(wish: Iterable[str]) -> list[str]:
    """The peers that were asked for, all if none; we always first, if among them."""
    names = [name.strip() for name in wish if name.strip()]
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no peer: there are {', '.join(PEERS)}")
    return [name for name in PEERS if not names or name in names]
