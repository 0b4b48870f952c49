"""The book of what a consumer owes the broker: nothing is forgotten, and no offset goes back."""

from __future__ import annotations

from shardwheel.kafka_commits import Commits, offsets_after
from shardwheel.ports import Record, TopicPartition

A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)


def test_of_each_topic_partition_the_largest_offset_counts() -> None:
    records = [Record("topic", place, offset, b"", b"") for place, offset in ((0, 7), (1, 3), (0, 5))]
    assert offsets_after(records) == {A: 8, B: 4}


def test_owed_until_exactly_that_offset_is_confirmed() -> None:
    commits = Commits()
    commits.assign([A, B])
    commits.want({A: 10, B: 4})
    commits.want({A: 12})
    commits.confirm(A, 10)
    commits.confirm(B, 4)
    assert dict(commits.owed) == {A: 12}
    commits.confirm(A, 12)
    assert not commits.owed


def test_offsets_never_go_back() -> None:
    commits = Commits()
    commits.assign([A])
    commits.want({A: 10})
    commits.confirm(A, 10)
    commits.want({A: 7})
    assert not commits.owed


def test_what_went_to_another_member_is_not_owed() -> None:
    commits = Commits()
    commits.assign([A, B])
    commits.want({A: 10, B: 4})
    commits.revoke([A])
    commits.want({A: 11})
    assert dict(commits.owed) == {B: 4}
    commits.assign([A])
    commits.hand_out([Record(*A, 2, b"", b"")])
    commits.want({A: 3})
    assert commits.owed[A] == 3


def test_what_was_handed_out_before_a_loss_does_not_pass_over_the_new_data() -> None:
    commits = Commits()
    commits.assign([A])
    commits.hand_out([Record(*A, 19, b"", b"")])
    commits.revoke([A])
    commits.assign([A])
    commits.want({A: 20})
    assert not commits.owed
    commits.hand_out([Record(*A, 4, b"", b"")])
    commits.want({A: 20})
    commits.want({A: 5})
    assert dict(commits.owed) == {A: 5}
