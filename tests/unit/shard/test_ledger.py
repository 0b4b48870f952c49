"""The ledger: T and X move over a prefix of acknowledged ticks, and never past what is still to come."""

from __future__ import annotations

from shardwheel.ports import Watermark
from shardwheel.shard.ledger import Ledger, Mark


def marks(ledger: Ledger) -> dict[int, tuple[int, int]]:
    return {mark.partition: (mark.fired_through_ms, mark.horizon_xid) for mark in ledger.watermarks()}


def test_a_tick_counts_once_its_ticket_and_all_before_are_acknowledged() -> None:
    ledger = Ledger()
    ledger.enter(1, epoch=4)
    ledger.tick(1, Mark(100, 7))
    ledger.tick(2, Mark(200, 8))
    assert marks(ledger) == {}
    ledger.acknowledge(1)
    assert ledger.watermarks() == [Watermark(1, 4, 100, 7)]
    ledger.acknowledge(2)
    assert marks(ledger) == {1: (200, 8)}


def test_a_tick_that_published_nothing_counts_with_the_one_before() -> None:
    ledger = Ledger()
    ledger.enter(1, epoch=1)
    ledger.tick(0, Mark(50, 7))
    assert marks(ledger) == {1: (50, 7)}
    ledger.tick(1, Mark(100, 7))
    for time in range(110, 200, 10):
        ledger.tick(1, Mark(time, 7))
    assert marks(ledger) == {1: (50, 7)}
    ledger.acknowledge(1)
    assert marks(ledger) == {1: (190, 7)}


def test_a_partition_takes_part_from_the_tick_after_it_entered() -> None:
    ledger = Ledger()
    ledger.enter(1, epoch=1)
    ledger.tick(1, Mark(100, 7))
    ledger.enter(2, epoch=1)
    ledger.acknowledge(1)
    assert marks(ledger) == {1: (100, 7)}
    ledger.tick(1, Mark(200, 7))
    assert marks(ledger) == {1: (200, 7), 2: (200, 7)}
    ledger.leave(1)
    assert marks(ledger) == {2: (200, 7)}


def test_what_was_stored_is_not_told_again_unless_the_epoch_changed() -> None:
    ledger = Ledger()
    ledger.enter(1, epoch=1)
    ledger.tick(0, Mark(100, 7))
    told = ledger.watermarks()
    ledger.stored(told)
    assert ledger.watermarks() == []
    ledger.enter(1, epoch=2)
    ledger.stored(told)
    ledger.tick(0, Mark(100, 7))
    assert ledger.watermarks() == [Watermark(1, 2, 100, 7)]


def test_a_pinned_partition_stays_before_the_tick_that_found_its_backlog() -> None:
    ledger = Ledger()
    for partition in (1, 2):
        ledger.enter(partition, epoch=1)
    ledger.tick(1, Mark(100, 7))
    ledger.pin(1)
    ledger.tick(2, Mark(200, 7))
    ledger.tick(3, Mark(300, 7))
    assert marks(ledger) == {}
    ledger.acknowledge(3)
    assert marks(ledger) == {1: (100, 7), 2: (300, 7)}
    ledger.unpin(1, 4)
    ledger.tick(4, Mark(400, 7))
    assert marks(ledger)[1] == (100, 7)
    ledger.acknowledge(4)
    assert marks(ledger) == {1: (400, 7), 2: (400, 7)}


def test_a_pin_at_a_tick_that_would_be_merged_keeps_the_tick_before() -> None:
    ledger = Ledger()
    ledger.enter(1, epoch=1)
    ledger.tick(1, Mark(100, 7))
    ledger.pin(1)
    ledger.tick(1, Mark(200, 7))
    ledger.acknowledge(1)
    assert marks(ledger) == {1: (100, 7)}


def test_a_second_backlog_before_the_first_is_over_keeps_the_pin() -> None:
    ledger = Ledger()
    ledger.enter(1, epoch=1)
    ledger.tick(0, Mark(100, 7))
    ledger.pin(1)
    ledger.tick(1, Mark(200, 7))
    ledger.unpin(1, 1)
    ledger.pin(1)
    ledger.tick(2, Mark(300, 7))
    ledger.acknowledge(2)
    assert marks(ledger) == {1: (100, 7)}
    ledger.unpin(1, 3)
    ledger.tick(3, Mark(400, 7))
    ledger.acknowledge(3)
    assert marks(ledger) == {1: (400, 7)}


def test_a_pin_that_is_over_without_a_further_tick_gives_the_mark_of_its_own() -> None:
    ledger = Ledger()
    ledger.enter(1, epoch=1)
    ledger.tick(0, Mark(100, 7))
    ledger.pin(1)
    ledger.unpin(1, 1)
    ledger.tick(1, Mark(200, 7))
    ledger.acknowledge(1)
    assert marks(ledger) == {1: (200, 7)}
