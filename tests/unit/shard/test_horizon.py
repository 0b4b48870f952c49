"""The age of the feed's horizon."""

from __future__ import annotations

from shardwheel.shard.horizon import HorizonAge


def test_it_ages_only_while_the_same_transaction_is_open() -> None:
    age = HorizonAge()
    seen = [("10:10:", 0.0), ("10:12:10", 1.0), ("10:15:10,13", 31.0), ("14:15:14", 32.0), ("16:16:", 90.0)]
    assert [age.note(snapshot, at_s) for snapshot, at_s in seen] == [0.0, 1.0, 31.0, 0.0, 0.0]


def test_a_quiet_database_is_not_an_old_horizon() -> None:
    age = HorizonAge()
    assert [age.note("10:10:", at_s) for at_s in (0.0, 60.0, 120.0)] == [0.0, 0.0, 0.0]
