"""One look at the cluster: tables, etcd, Kafka, the doors of services. `scrapes` and `roll` do the reckoning.

A source that does not answer makes the look blind for the rules that need it: their alerts neither open nor
end by it. That it does not answer is a figure of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import trio

from shardwheel.alert import TableFigures
from shardwheel.alerts.judging import Look
from shardwheel.alerts.roll import Roll
from shardwheel.alerts.rules import Figure
from shardwheel.alerts.scrapes import Scrape, duplicates_share, figures_of
from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.job import Pool, Priority
from shardwheel.lag import lag_of
from shardwheel.ports import Bus, Leases
from shardwheel.records import View, read_view
from shardwheel.topics import RESULTS, RESULTS_GROUP, job_topic, workers_group

T = TypeVar("T")

_OF_ETCD = ("shard_heartbeat", "shard_jobs", "tick_latency", "horizon_age", "duplicates")
_OF_KAFKA = tuple(f"pool_lag_{pool.value}" for pool in Pool)
_OF_A_DOOR = ("shard_jobs", "tick_latency", "horizon_age")


class Scraper(Protocol):
    async def scrape(self, address: str) -> Scrape:
        """What the door at this address says; `UnavailableError` when it does not."""


class Gather:
    """Looks, and remembers of the look before what a rate needs."""

    def __init__(
        self,
        leases: Leases,
        bus: Bus,
        results_bus: Bus,
        scraper: Scraper,
        roll: Roll,
        now_ms: Callable[[], float],
        *,
        doors: Sequence[str] = (),
    ) -> None:
        """`doors`: addresses of services that neither etcd nor the tables name."""
        self._leases = leases
        self._bus = bus
        self._results_bus = results_bus
        self._scraper = scraper
        self._roll = roll
        self._now_ms = now_ms
        self._doors = doors
        self._scrapes: dict[str, Scrape] = {}
        self._reached_s: dict[str, float] = {}
        self._figures: list[Figure] = []
        self._blind: set[tuple[str, str | None]] = set()

    async def look(self, tables: TableFigures) -> Look:
        self._figures, self._blind = [], set()
        view = await self._ask("etcd", _OF_ETCD, self._read_view)
        await self._look_at_kafka()
        if view is not None:
            await self._look_at_doors(view, {*self._doors, *tables.worker_doors})
        self._figures += table_figures(tables, view, self._scrapes if view is not None else {})
        return Look(tuple(self._figures), frozenset(self._blind))

    async def look_for_shards(self) -> None:
        """Who is alive: asked more often than the rest, so that a shard that says it leaves is heard."""
        self._note(read_view(await self._leases.range("shards/")))

    async def _read_view(self) -> View:
        return self._note(read_view(await self._leases.range("")))

    def _note(self, view: View) -> View:
        self._roll.note(view.members, self._now_ms())
        return view

    async def _look_at_kafka(self) -> None:
        """All at once: a broker that is away costs one wait, not one a group."""
        look, results = self._look_at_lag, self._results_bus
        async with trio.open_nursery() as nursery:
            for pool in Pool:
                rule, topics = f"pool_lag_{pool.value}", [job_topic(pool, priority) for priority in Priority]
                nursery.start_soon(look, "Kafka", rule, self._bus, workers_group(pool), topics)
            nursery.start_soon(look, "the results' Kafka", "results_lag", results, RESULTS_GROUP, [RESULTS])

    async def _look_at_lag(self, source: str, rule: str, bus: Bus, group: str, topics: Sequence[str]) -> None:
        lag = await self._ask(source, (rule,), lambda: lag_of(bus, group, topics))
        if lag is not None:
            self._figures.append(Figure(rule, lag))

    async def _look_at_doors(self, view: View, doors: Iterable[str]) -> None:
        shards = {shard_id: member.address for shard_id, member in view.members.items() if member.address}
        found: dict[str, Scrape] = {}

        async def one(name: str, address: str) -> None:
            rules = [(rule, name) for rule in _OF_A_DOOR] if name in shards else []
            # Of others nobody need hear: a worker that has died is in the table for some seconds more.
            silence = "shard_door" if name in shards else None
            scrape = await self._ask(name, rules, lambda: self._scraper.scrape(address), silence)
            if scrape is not None:
                found[name] = scrape

        async with trio.open_nursery() as nursery:
            for name, address in {**{door: door for door in doors}, **shards}.items():
                nursery.start_soon(one, name, address)
        before, self._scrapes = self._scrapes, found
        for shard_id in shards.keys() & found.keys():
            self._figures += figures_of(shard_id, before.get(shard_id), found[shard_id])
        share = duplicates_share((before[name], found[name]) for name in before.keys() & found.keys())
        if share is not None:
            self._figures.append(Figure("duplicates", share))
        told_s = {shard_id: found[shard_id].heartbeat_age_s for shard_id in shards.keys() & found.keys()}
        self._figures += self._roll.figures(self._now_ms(), told_s)

    async def _ask(
        self,
        source: str,
        rules: Sequence[str | tuple[str, str]],
        question: Callable[[], Awaitable[T]],
        silence: str | None = "unreachable",
    ) -> T | None:
        """The answer, or None and what we are blind for. How long the source has been silent is a figure too:
        of the rule `silence`, if that is anybody's business."""
        now_s = self._now_ms() / 1000
        try:
            answer = await question()
        except (UnavailableError, NotFoundError):
            self._blind |= {rule if isinstance(rule, tuple) else (rule, None) for rule in rules}
            silent_s = now_s - self._reached_s.setdefault(source, now_s)
            if silence is not None:
                self._figures.append(Figure(silence, silent_s, source))
            return None
        self._reached_s[source] = now_s
        return answer


def table_figures(tables: TableFigures, view: View | None, scrapes: Mapping[str, Scrape]) -> list[Figure]:
    """What the tables say, and the oldest due entry, of which the shards' doors know something too."""
    figures = [Figure("dead_letters", tables.dead_letters)]
    due = _oldest_due(tables, view, scrapes)
    if due is not None:
        figures.append(due)
    if tables.floor_ms is not None:
        age_s = max(0, tables.now_ms - tables.floor_ms) / 1000
        figures.append(Figure("floor_age", age_s, facts={"partition": tables.floor_least}))
    if tables.dag_runs_ended:
        facts = {"succeeded": tables.dag_runs_succeeded, "ended": tables.dag_runs_ended}
        figures.append(
            Figure("dag_completion", tables.dag_runs_succeeded / tables.dag_runs_ended, facts=facts)
        )
    return figures


def _oldest_due(tables: TableFigures, view: View | None, scrapes: Mapping[str, Scrape]) -> Figure | None:
    """By the watermarks, which stand still when nothing is fired, and by what the shards say."""
    found: list[tuple[float, Mapping[str, Any]]] = [
        (scrape.oldest_due_s, {"shard": shard_id})
        for shard_id, scrape in scrapes.items()
        if scrape.oldest_due_s
    ]
    if tables.fired_through_ms is not None and tables.fired_least is not None:
        holder = None if view is None else view.owners.get(tables.fired_least)
        whose = {"partition": tables.fired_least, "shard": "none" if holder is None else holder.shard_id}
        found.append((max(0, tables.now_ms - tables.fired_through_ms) / 1000, whose))
    if not found:
        return None
    value, facts = max(found, key=lambda one: one[0])
    return Figure("oldest_due", value, facts=facts)
