"""What listeners are told: each thing once, and what changed since."""

from __future__ import annotations

import asyncio

from shardwheel.api.telling import MOST_UNREAD, Event, Listener, Tale
from shardwheel.ports import Snapshot
from shardwheel.records import Member, View, read_view
from shardwheel.roles import Role
from shardwheel.store.news import Item, News


def ended(name: str) -> Item:
    return Item("execution", name, {"id": name})


def view_of(*shard_ids: str) -> View:
    members = {shard_id: Member(shard_id) for shard_id in shard_ids}
    return read_view(Snapshot((), 1))._replace(members=members)


def told(listener: Listener) -> list[Event | None]:
    return [listener.get_nowait() for _ in range(listener.qsize())]


def heard_by(tale: Tale) -> Listener:
    listener: Listener = asyncio.Queue()
    tale.listeners.add(listener)
    return listener


def test_what_was_before_is_not_told_and_the_rest_once() -> None:
    tale = Tale()
    listener = heard_by(tale)
    tale.take(News([ended("old")], {}), None)
    tale.take(News([ended("old"), ended("new")], {}), None)
    tale.take(News([ended("old"), ended("new")], {}), None)
    assert [event and (event.kind, event.data) for event in told(listener)] == [("execution", {"id": "new"})]


def test_held_counts_are_told_when_they_change() -> None:
    tale = Tale()
    listener = heard_by(tale)
    for held in ({}, {"paused": 2}, {"paused": 2}, {}):
        tale.take(News([], held), None)
    assert [event and event.data for event in told(listener)] == [{"paused": 2}, {}]


def test_shards_that_come_and_go_are_for_operators() -> None:
    tale = Tale()
    listener = heard_by(tale)
    for view in (view_of("a", "b"), None, view_of("b", "c")):
        tale.take(News([], {}), view)
    assert [event and (event.kind, event.data["id"], event.role) for event in told(listener)] == [
        ("shard_joined", "c", Role.OPERATOR),
        ("shard_left", "a", Role.OPERATOR),
    ]


def test_who_comes_again_gets_what_was_missed_or_learns_that_it_is_gone() -> None:
    tale = Tale()
    tale.take(News([], {}), None)
    tale.take(News([ended("1"), ended("2"), ended("3")], {}), None)
    first = tale.kept[0].id
    missed = tale.since(first)
    assert missed is not None and [event.data["id"] for event in missed] == ["2", "3"]
    assert tale.since("another-1") is None


def test_a_listener_that_reads_nothing_is_let_go() -> None:
    tale = Tale()
    listener = heard_by(tale)
    tale.take(News([], {}), None)
    tale.take(News([ended(str(number)) for number in range(MOST_UNREAD + 5)], {}), None)
    events = told(listener)
    assert len(events) == MOST_UNREAD + 1 and events[-1] is None
    assert listener not in tale.listeners
