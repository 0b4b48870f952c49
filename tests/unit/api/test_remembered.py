"""A remembered answer: for its tenant only, for half a second, not beyond a change."""

from __future__ import annotations

from shardwheel.api.remembered import KEPT_S, MOST, MOST_BYTES, Remembered

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


def test_large_answers_do_not_fill_the_memory() -> None:
    remembered, large = Remembered(lambda: 0.0), bytes(MOST_BYTES // 4)
    ids = [number.to_bytes(16, "big") for number in range(40)]

    def kept() -> int:
        return sum(remembered.get("acme", job_id) is not None for job_id in ids)

    for number, job_id in enumerate(ids):
        remembered.keep("acme", job_id, large, 0.0)
        assert 1 <= kept() <= 4, number
    # One that is replaced or forgotten counts no more.
    for _ in range(9):
        remembered.forget("acme", ids[-1])
        remembered.keep("acme", ids[-1], large, 0.0)
        remembered.keep("acme", ids[-1], large, 0.0)
    assert kept() == 4
