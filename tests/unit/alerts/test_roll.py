"""Who is missed: not who said that it leaves; until there is another; after the watcher's restart too."""

from __future__ import annotations

from shardwheel.alert import Alert
from shardwheel.alerts.roll import MISSED_MS, RULE, Roll
from shardwheel.alerts.rules import rules
from shardwheel.records import Member, MemberState


def members(*names: str, **states: MemberState) -> dict[str, Member]:
    return {name: Member(name, state=states.get(name, MemberState.ACTIVE)) for name in names}


def missing(roll: Roll, now_ms: int) -> dict[str, float]:
    return {f.subject: f.value for f in roll.figures(now_ms, {}) if f.value}


def test_a_shard_that_vanishes_is_missed_until_another_one_comes() -> None:
    roll = Roll()
    roll.note(members("a", "b"), 1_000)
    roll.note(members("a"), 2_000)
    roll.note(members("a"), 9_000)
    assert missing(roll, 9_000) == {"b": 8.0}
    roll.note(members("a", "c"), 10_000)
    assert missing(roll, 10_000) == {}


def test_a_shard_that_leaves_is_not_missed() -> None:
    roll = Roll()
    roll.note(members("a", "b"), 1_000)
    roll.note(members("a", "b", b=MemberState.LEAVING), 2_000)
    roll.note(members("a"), 3_000)
    assert missing(roll, 30_000) == {}


def test_after_an_hour_nobody_waits_for_it_any_more() -> None:
    roll = Roll()
    roll.note(members("a", "b"), 0)
    roll.note(members("a"), MISSED_MS - 1)
    assert missing(roll, MISSED_MS - 1)
    roll.note(members("a"), MISSED_MS)
    assert missing(roll, MISSED_MS) == {}


def test_a_watcher_that_starts_anew_goes_on_missing_it() -> None:
    before = Roll()
    before.note(members("a", "b"), 1_000)
    before.note(members("a"), 2_000)
    (figure,) = (f for f in before.figures(9_000, {}) if f.value)
    finding = rules()[RULE].finding(figure)
    after = Roll()
    after.restore([Alert(bytes(16), *finding, opened_ms=0, last_seen_ms=0)])
    after.note(members("a"), 10_000)
    assert missing(after, 10_000) == {"b": 9.0}
    after.note(members("a", "c"), 11_000)
    assert missing(after, 11_000) == {}


def test_what_a_shard_says_of_itself_counts_while_it_is_alive() -> None:
    roll = Roll()
    roll.note(members("a"), 1_000)
    (figure,) = roll.figures(1_000, {"a": 7.5})
    assert (figure.subject, figure.value) == ("a", 7.5)
