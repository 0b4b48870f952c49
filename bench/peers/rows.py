"""The rows of `bench peers`: how each piece of work is given to a peer, and what is measured of it.

Each row has a fresh database and a limit. Whatever is not over by then is told as far as it got, and counts
as fast as it was until then. The limit counts from when there is something to do: waiting for the moment
that all jobs are due at is nobody's fault, and loading them first, where it is not what the row measures, has
twice the limit for itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from shardwheel.bench.measure import resident_bytes, spread
from shardwheel.bench.peers.host import Host
from shardwheel.bench.peers.notes import count_notes, read_notes
from shardwheel.bench.peers.peer import Peer, Place, peer_class
from shardwheel.bench.peers.work import (
    MINUTE_S,
    Once,
    Plan,
    Row,
    Size,
    dues_of,
    lateness_of,
    minutely,
    plans_of,
    unfinished,
)

_CHUNK: Final = 1_000
# Numbers of jobs that only warm up, far from all others.
_WARM: Final = 1 << 40
_WARM_UP: Final = 200
_LOOK_S: Final = 0.02
_GRACE_S: Final = 5.0
_READY_S: Final = 120.0
# What is over so soon is measured so often.
_QUICK_S: Final = 8.0
_ROUNDS: Final = 3
# Of the limit, for loading what is due only later.
_LOADS: Final = 2
Item = TypeVar("Item")


class UnfinishedError(Exception):
    """The limit has passed: the message says how far it got, and the rate at which jobs had started, if they
    had."""

    def __init__(self, message: str, started_per_s: float | None = None) -> None:
        super().__init__(message)
        self.started_per_s = started_per_s


class Run:
    """One peer at one row."""

    def __init__(self, name: str, place: Place, notes: Path, size: Size, say: Callable[[str], None]) -> None:
        self._name = name
        self._place = place
        self._notes = notes
        self._size = size
        self._say = say
        self._limit()
        self._peer: Peer = peer_class(name)(place)
        self._host: Host | None = None

    def measure(self, row: str, count: int) -> Row:
        """`count` matters to the rows of recurring jobs only."""
        rows: dict[str, Callable[[], Row]] = {
            "herd": self._herd,
            "pace": self._pace,
            "recurring": lambda: self._recurring(count),
            "once": self._once,
            "repeated": self._repeated,
        }
        try:
            self._peer.create()
            return rows[row]()
        except UnfinishedError as told:
            return {"unfinished": str(told), "started_per_s": told.started_per_s}
        except TimeoutError:
            return {"unfinished": f"did not finish within {self._given_s:g} s"}
        finally:
            if self._host is not None:
                self._host.stop()
            self._peer.close()

    # --- (a) and (b): jobs that run once ---------------------------------------------------------------

    def _herd(self) -> Row:
        """From the moment that all are due at until the last has started."""
        self._start()
        per_job_s = self._warm_up()
        count = self._size.herd
        due_s = self._soon_s(count * per_job_s)
        self._limit(_LOADS)
        loaded_s = self._add("add_once", [Once(number, due_s) for number in range(count)])
        # Who was still loading then is counted from when it was done with it.
        from_s = max(due_s, loaded_s)
        self._limit(from_s=from_s)
        starts = self._await_starts(range(count), from_s)
        last_s = max(at_s for _, at_s in starts)
        return {
            "fire_per_s": round(count / max(last_s - from_s, 0.001), 1),
            "seconds": round(last_s - from_s, 3),
            "loaded_late_s": round(from_s - due_s, 3),
        }

    def _pace(self) -> Row:
        """A job each 10 ms: how late each starts."""
        self._start()
        per_job_s = self._warm_up()
        count = round(self._size.pace_s * self._size.pace_per_s)
        first_s = self._soon_s(count * per_job_s)
        dues = [Once(number, first_s + number / self._size.pace_per_s) for number in range(count)]
        self._limit()
        self._add("add_once", dues)
        with suppress(UnfinishedError):
            self._await_starts(range(count), first_s, limit_s=dues[-1].due_s - time.time() + 2 * _GRACE_S)
        return self._lateness(dues)

    def _lateness(self, dues: Sequence[Once]) -> Row:
        late = lateness_of(dues, read_notes(self._notes), time.time())
        return {
            "lateness_p50_ms": round(late.latencies.percentile_ms(50), 1),
            "lateness_p99_ms": round(late.latencies.percentile_ms(99), 1),
            "lateness_max_ms": round(late.latencies.max_ms, 1),
            "dues": len(dues),
            "not_started": late.missed,
        }

    # --- (c) and (d): jobs that recur ------------------------------------------------------------------

    def _recurring(self, count: int) -> Row:
        plans = self._plans(plans_of(count))
        self._start()
        before = self._resident()
        begun_s = time.monotonic()
        self._load(plans)
        row: Row = {"load_s": round(time.monotonic() - begun_s, 3)}
        row |= self._hold(plans)
        # Only now: whoever takes in behind the caller's back has it all by the end of the window.
        row["bytes_per_job"] = round((self._resident() - before) / count)
        if "restart" not in self._peer.cannot:
            row |= self._restart(plans)
        return row

    def _plans(self, plans: list[Plan]) -> list[Plan]:
        if not self._peer.by_minutes:
            return plans
        return [plan._replace(phase_s=plan.phase_s // MINUTE_S * MINUTE_S) for plan in plans]

    def _load(self, plans: Sequence[Plan]) -> None:
        if self._peer.declares:
            assert self._host is not None
            self._host.stop()
            self._start(plans)
        else:
            self._add("add_recurring", plans)

    def _hold(self, plans: Sequence[Plan]) -> Row:
        """How late they are, over a window that begins when all is loaded."""
        from_s = time.time() + 2
        to_s = from_s + (MINUTE_S + 2 if self._peer.by_minutes else self._size.window_s)
        dues = dues_of(plans, from_s, to_s)
        self._say(f"{self._name}: {len(dues):,} of {len(plans):,} are due in a window of {to_s - from_s:g} s")
        time.sleep(max(0.0, to_s + _GRACE_S - time.time()))
        return self._lateness(dues)

    def _restart(self, plans: Sequence[Plan]) -> Row:
        """From the start of its processes, after an orderly end of them, until a job starts; with a limit of
        its own."""
        assert self._host is not None
        self._host.stop()
        self._limit()
        seen = count_notes(self._notes)
        begun_s = time.time()
        try:
            self._start(plans if self._peer.declares else ())
            self._wait(lambda: count_notes(self._notes) > seen, lambda: "no job started")
        except (RuntimeError, TimeoutError, UnfinishedError) as told:
            late = f"did not finish within {self._size.limit_s:g} s"
            return {"restart_unfinished": str(told) or late}
        first_s = read_notes(self._notes, seen)[0][1]
        return {"restart_s": round(first_s - begun_s, 3)}

    # --- (e): end to end -------------------------------------------------------------------------------

    def _once(self) -> Row:
        """From the first call that adds one until the end of the last is recorded; if that is quick, several
        times over, and the median of these."""
        self._start()
        self._warm_up()
        rates: list[float] = []
        while len(rates) < _ROUNDS and all(self._size.herd / rate < _QUICK_S for rate in rates):
            first = len(rates) * self._size.herd
            rates.append(self._once_through(range(first, first + self._size.herd)))
        return {
            "per_s": round(spread(rates).median, 1),
            "seconds": round(self._size.herd / spread(rates).median, 3),
            "rounds_per_s": [round(rate, 1) for rate in rates],
        }

    def _once_through(self, numbers: range) -> float:
        """How many a second."""
        begun_s, seen = time.time(), count_notes(self._notes)
        self._limit()
        try:
            self._add("enqueue", numbers)
        except (TimeoutError, UnfinishedError):
            self._give_up(numbers, begun_s)
        self._await_starts(numbers, begun_s, seen=seen)
        return len(numbers) / (self._await_recorded() - begun_s)

    def _repeated(self) -> Row:
        """As many recurring jobs, all due at the top of a minute, until the end of the last is recorded."""
        count = self._size.herd
        self._start()
        self._limit(_LOADS)
        self._load(minutely(count))
        due_s = (time.time() + 3) // MINUTE_S * MINUTE_S + MINUTE_S
        self._limit(from_s=due_s)
        time.sleep(max(0.0, due_s - time.time()))
        self._await_starts(range(count), due_s)
        ended_s = self._await_recorded()
        return {"per_s": round(count / (ended_s - due_s), 1), "seconds": round(ended_s - due_s, 3)}

    # --- Steps -----------------------------------------------------------------------------------------

    def _start(self, plans: Sequence[Plan] = ()) -> None:
        """The first start of a row is not part of its work: the limit counts from when it is over."""
        is_first = self._host is None
        self._host = Host(self._name, self._place, plans, _READY_S if is_first else self._left_s())
        if is_first:
            self._limit()

    def _limit(self, times: float = 1, *, from_s: float | None = None) -> None:
        """The limit begins anew: now, or at a moment to come."""
        wait_s = 0.0 if from_s is None else max(0.0, from_s - time.time())
        self._given_s = times * self._size.limit_s
        self._deadline_s = time.monotonic() + wait_s + self._given_s

    def _warm_up(self) -> float:
        """Some jobs that do not count, one after the other like those of `pace`: a batch would warm up
        batches only. How long adding one of them takes."""
        begun_s, first_s = time.monotonic(), time.time() + 0.5
        dues = [first_s + number / self._size.pace_per_s for number in range(_WARM_UP)]
        self._call("add_once", [Once(_WARM + number, due_s) for number, due_s in enumerate(dues)])
        per_job_s = (time.monotonic() - begun_s) / _WARM_UP
        self._wait(lambda: count_notes(self._notes) >= _WARM_UP, lambda: "warming up")
        return per_job_s

    def _soon_s(self, loading_s: float) -> float:
        """A moment by which so much should be loaded, with some room; not further off than the limit."""
        return time.time() + 3 + min(1.5 * loading_s, self._size.limit_s)

    def _add(self, method: str, items: Sequence[Any]) -> float:
        """By portions; when that was done."""
        for place in range(0, len(items), _CHUNK):
            if self._left_s() <= 0:
                raise UnfinishedError(unfinished(self._given_s, place, len(items), "loaded"))
            self._call(method, list(items[place : place + _CHUNK]))
        return time.time()

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._peer.inside:
            assert self._host is not None
            return self._host.call(method, *arguments, limit_s=self._left_s() + _GRACE_S)
        return getattr(self._peer, method)(*arguments)

    def _await_starts(
        self, numbers: range, from_s: float, limit_s: float | None = None, seen: int = 0
    ) -> list[tuple[int, float]]:
        """Until all these jobs have started since then; (number, moment) of those. `seen`: notes before."""
        until_s = self._deadline_s if limit_s is None else time.monotonic() + limit_s
        while True:
            noted = count_notes(self._notes) - seen
            if noted >= len(numbers):
                starts = self._starts(numbers, from_s, seen)
                if len({number for number, _ in starts}) >= len(numbers):
                    return starts
            if time.monotonic() > until_s:
                self._give_up(numbers, from_s)
            time.sleep(_LOOK_S if noted < len(numbers) else 10 * _LOOK_S)

    def _starts(self, numbers: range, from_s: float, seen: int = 0) -> list[tuple[int, float]]:
        return [one for one in read_notes(self._notes, seen) if one[0] in numbers and one[1] >= from_s - 1]

    def _give_up(self, numbers: range, from_s: float) -> NoReturn:
        started, past_s = len({number for number, _ in self._starts(numbers, from_s)}), time.time() - from_s
        told = unfinished(self._size.limit_s, started, len(numbers), "started")
        raise UnfinishedError(told, round(started / past_s, 1) if past_s > 0 else None)

    def _await_recorded(self) -> float:
        last_s = max(at_s for _, at_s in read_notes(self._notes))
        if not self._call("unfinished"):
            return last_s
        self._wait(lambda: not self._call("unfinished"), lambda: "all started, not all recorded")
        return time.time()

    def _wait(self, done: Callable[[], bool], told: Callable[[], str]) -> None:
        while not done():
            if self._left_s() <= 0:
                raise UnfinishedError(f"did not finish within {self._size.limit_s:g} s: {told()}")
            time.sleep(_LOOK_S)

    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()

    def _resident(self) -> int:
        assert self._host is not None
        return sum(resident_bytes(pid) for pid in self._host.pids)
