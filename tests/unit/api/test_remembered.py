"""A remembered answer: for its tenant only, for half a second, not beyond a change."""

from __future__ import annotations

from shardwheel.api.remembered import KEPT_S, MOST, Remembered

ID = bytes(16)


def test_an_answer_is_its_tenants_own_and_gets_old() -> None:
    now_s = 100.0
    remembered = Remembered(lambda: now_s)
    remembered.keep("acme", ID, b"answer", remembered.now_s())
    assert remembered.get("acme", ID) == b"answer"
    assert remembered.get("rival", ID) is None
    now_s += KEPT_S
    assert remembered.get("acme", ID) is None


def test_a_change_is_seen_at_once() -> None:
    remembered = Remembered(lambda: 0.0)
    remembered.keep("acme", ID, b"answer", 0.0)
    remembered.forget("acme", ID)
    remembered.forget("acme", ID)
    assert remembered.get("acme", ID) is None


def test_an_answer_whose_reading_took_long_is_old_already() -> None:
    """Somebody may have changed the job since it began: a slow PostgreSQL must not make the cache older."""
    now_s = 100.0
    remembered = Remembered(lambda: now_s)
    begun_at_s = remembered.now_s()
    now_s += 5
    remembered.keep("acme", ID, b"answer", begun_at_s)
    assert remembered.get("acme", ID) is None


def test_it_does_not_grow_without_end() -> None:
    remembered = Remembered(lambda: 0.0)
    for number in range(MOST + 1):
        remembered.keep("acme", number.to_bytes(16, "big"), b"", 0.0)
    assert remembered.get("acme", bytes(16)) is None
    assert remembered.get("acme", MOST.to_bytes(16, "big")) == b""
