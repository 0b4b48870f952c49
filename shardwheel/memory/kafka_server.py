"""A Kafka cluster in memory: topics, logs, consumer groups, a generation, and switches for its faults.

Deterministic: no thread, no clock but trio's (so `MockClock` moves it), chance only from the seed. Clients
are made by `memory.bus`; tests and the simulation hold the server and turn the switches:

    server = MemoryKafka(seed=7)
    server.away = True              nothing reaches it; what waits goes on when it is back
    server.ack_delay_s = 0.3        acknowledgements take that long
    server.lose_acks = True         it stores a part of what comes and answers nothing; once it is off again,
                                    producers publish all that again: duplicates, no gap
    server.read_only = frozenset({1})   too few replicas in sync: this topic partition, of every topic, can be
                                    read, and not be written until that is over
    server.lose_commit_answers      it stores offsets and answers nothing
    server.duplicate_chance = 0.1   a flight is stored twice
    server.shuffle = True           records of different topic partitions come in any order
    server.wipe()                   all data gone, topics too: another generation
    server.trim(place, 40)          retention: everything below that offset is gone
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import trio

from shardwheel.errors import NotFoundError, UsageError
from shardwheel.ports import Message, Record, TopicPartition, TopicSpec

T = TypeVar("T")


class Log:
    """One topic partition: `start` is the oldest offset still there, `end` the next one."""

    def __init__(self) -> None:
        self.start = 0
        self._records: list[tuple[bytes, bytes]] = []

    @property
    def end(self) -> int:
        return self.start + len(self._records)

    def append(self, key: bytes, value: bytes) -> None:
        self._records.append((key, value))

    def read(self, place: TopicPartition, offset: int, most: int) -> list[Record]:
        first = offset - self.start
        found = self._records[first : first + most]
        return [Record(*place, offset + index, key, value) for index, (key, value) in enumerate(found)]

    def trim(self, offset: int) -> None:
        del self._records[: offset - self.start]
        self.start = max(self.start, offset)


class Member:
    """A consumer as its group sees it. `positions` holds exactly what is assigned and was read."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = frozenset(topics)
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.positions: dict[TopicPartition, int] = {}
        self.gaps: set[TopicPartition] = set()
        # Taken away since the consumer looked; some may have been given back meanwhile.
        self.revoked: set[TopicPartition] = set()

    def assign(self, places: frozenset[TopicPartition]) -> None:
        self.revoked |= self.assigned - places
        self.assigned = places
        self.positions = {place: at for place, at in self.positions.items() if place in places}


class Group:
    def __init__(self) -> None:
        self.members: list[Member] = []
        self.committed: dict[TopicPartition, int] = {}

    def share(self, places: Iterable[TopicPartition]) -> None:
        """Deal each topic's partitions to the members that want it, in the order they joined."""
        dealt: dict[Member, set[TopicPartition]] = {member: set() for member in self.members}
        for place in sorted(places):
            takers = [member for member in self.members if place.topic in member.topics]
            if takers:
                dealt[takers[place.topic_partition % len(takers)]].add(place)
        for member, share in dealt.items():
            member.assign(frozenset(share))


class Switch(Generic[T]):
    """A fault, by its value. When it is turned, whoever waits for the server looks again."""

    def __init__(self, off: T) -> None:
        self._off = off

    def __set_name__(self, _owner: type[MemoryKafka], name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, server: MemoryKafka, _owner: type[MemoryKafka]) -> T:
        value: T = vars(server).get(self._name, self._off)
        return value

    def __set__(self, server: MemoryKafka, value: T) -> None:
        vars(server)[self._name] = value
        server.changed()


class MemoryKafka:
    """The server. Everything here is instantaneous; waiting is the clients' business (`until`)."""

    away = Switch(False)
    lose_acks = Switch(False)
    lose_commit_answers = Switch(False)
    read_only = Switch[frozenset[int]](frozenset())

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.ack_delay_s = 0.0
        self.duplicate_chance = 0.0
        self.shuffle = False
        self._waiting = trio.lowlevel.ParkingLot()
        self._ids = itertools.count(1)
        self._start_empty()

    def _start_empty(self) -> None:
        self._cluster_id = next(self._ids)
        self._topic_ids: dict[str, int] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._groups: defaultdict[str, Group] = defaultdict(Group)

    def wipe(self) -> None:
        """Members stay, as consumers do that reconnect to an empty cluster; what they knew is gone."""
        members = {name: group.members for name, group in self._groups.items()}
        self._start_empty()
        for name, kept in members.items():
            self._groups[name].members = kept
        self._share_all()

    def trim(self, place: TopicPartition, offset: int) -> None:
        self._logs[place].trim(offset)

    def changed(self) -> None:
        self._waiting.unpark_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not condition():
            await self._waiting.park()

    # Topics

    def create(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            if spec.name not in self._topic_ids:
                self._topic_ids[spec.name] = next(self._ids)
                for number in range(spec.topic_partitions):
                    self._logs[TopicPartition(spec.name, number)] = Log()
            count = len(self._places([spec.name]))
            if count != spec.topic_partitions:
                raise UsageError(
                    f"topic {spec.name} has {count} topic partitions, not {spec.topic_partitions}",
                    field="topic_partitions",
                )
        self._share_all()

    def takes(self, messages: Iterable[Message]) -> bool:
        """May all of these be written just now?"""
        return not self.away and all(
            TopicPartition(message.topic, message.topic_partition) in self._logs
            and message.topic_partition not in self.read_only
            for message in messages
        )

    def generation(self, topics: Sequence[str]) -> str:
        self.logs(topics)
        ids = ",".join(f"{name}={self._topic_ids[name]}" for name in sorted(topics))
        return f"memory-{self._cluster_id}:{ids}"

    def logs(self, topics: Sequence[str]) -> dict[TopicPartition, Log]:
        missing = sorted(set(topics) - set(self._topic_ids))
        if missing:
            raise NotFoundError(f"Kafka has no topic {', '.join(missing)}", field="topics")
        return {place: self._logs[place] for place in self._places(topics)}

    def _places(self, topics: Sequence[str]) -> list[TopicPartition]:
        return sorted(place for place in self._logs if place.topic in topics)

    # Records

    def append(self, messages: Iterable[Message]) -> None:
        for topic, topic_partition, key, value in messages:
            self._logs[TopicPartition(topic, topic_partition)].append(key, value)
        self.changed()

    def append_torn(self, messages: Iterable[Message]) -> None:
        """Of each topic partition only a beginning arrives: the connection broke."""
        of_place: defaultdict[TopicPartition, list[Message]] = defaultdict(list)
        for message in messages:
            of_place[TopicPartition(message.topic, message.topic_partition)].append(message)
        for place in sorted(of_place):
            self.append(of_place[place][: self.random.randint(0, len(of_place[place]))])

    # Groups

    def join(self, group: str, topics: Sequence[str]) -> Member:
        member = Member(topics)
        self._groups[group].members.append(member)
        self._share_all()
        return member

    def leave(self, group: str, member: Member) -> None:
        if member in self._groups[group].members:
            self._groups[group].members.remove(member)
            member.assign(frozenset())
            self._share_all()

    def _share_all(self) -> None:
        for group in self._groups.values():
            group.share(self._logs)
        self.changed()

    def read(self, group: str, member: Member, most: int) -> list[Record]:
        places = sorted(member.assigned)
        if self.shuffle:
            self.random.shuffle(places)
        records: list[Record] = []
        for place in places:
            records += self._read_place(self._groups[group], member, place, most - len(records))
        return records

    def _read_place(self, group: Group, member: Member, place: TopicPartition, most: int) -> list[Record]:
        log = self._logs[place]
        at = member.positions.get(place, group.committed.get(place, log.start))
        if not log.start <= at <= log.end:
            member.gaps.add(place)
            at = log.start
        found = log.read(place, at, most)
        member.positions[place] = at + len(found)
        return found

    def commit(self, group: str, place: TopicPartition, offset: int) -> None:
        self._groups[group].committed[place] = offset

    def committed(self, group: str) -> dict[TopicPartition, int]:
        return dict(self._groups[group].committed)
