"""How many clients, and how much waits for them."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from shardwheel.api import crowd
from shardwheel.api.crowd import MOST_CONNECTIONS, MOST_REFUSED, RESERVED_FILES, Place, Unread

ALL = MOST_CONNECTIONS + MOST_REFUSED + RESERVED_FILES


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    crowd.most_connections.cache_clear()
    yield
    crowd.most_connections.cache_clear()


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "most"),
    [
        (1_024, 1_048_576, ALL, MOST_CONNECTIONS),
        (1_024, resource.RLIM_INFINITY, ALL, MOST_CONNECTIONS),
        (1_024, 4_096, 4_096, 4_096 - MOST_REFUSED - RESERVED_FILES),
        (1_048_576, 1_048_576, None, MOST_CONNECTIONS),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, MOST_CONNECTIONS),
        (64, 64, 64, 1),
    ],
)
def test_as_many_connections_as_the_process_may_have(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, asked: int | None, most: int
) -> None:
    wanted: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: wanted.append(limits))
    assert crowd.most_connections() == most
    assert wanted == ([] if asked is None else [(asked, hard)])


def test_the_first_are_served_the_next_told_and_the_rest_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "most_connections", lambda: 2)
    places = [crowd.place_of(number) for number in (1, 2, 3, 2 + MOST_REFUSED, 3 + MOST_REFUSED)]
    assert places == [Place.SERVED, Place.SERVED, Place.REFUSED, Place.REFUSED, Place.NONE]


def test_who_has_let_us_wait_the_longest_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "MOST_UNREAD_BYTES", 100)
    unread, cut = Unread(), list[str]()
    for name, size in (("a", 40), ("b", 40), ("c", 20)):
        unread.add(name, size, lambda name=name: cut.append(name))  # type: ignore[misc]
    assert cut == []
    unread.discard("b")
    unread.add("d", 30, lambda: cut.append("d"))
    assert cut == []
    unread.add("e", 60, lambda: cut.append("e"))
    assert cut == ["a", "c"]
    unread.discard("nobody")
    unread.add("f", 200, lambda: cut.append("f"))
    assert cut == ["a", "c", "d", "e", "f"]
