"""What a shard has to do about a partition: one row of the table in `orders` a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwheel.records import Holder, Member, Plan, Seat, View
from shardwheel.shard.orders import Orders, is_moving, orders


def order(
    seat: Seat,
    holder: str | None = None,
    *,
    held: Sequence[int] = (),
    members: tuple[str, ...] = ("me", "other"),
    ready: str | None = None,
    suspect: bool = False,
    **fields: Any,
) -> Orders:
    """About partition 0, whose key was written at revision 5, in a view of revision 9."""
    view = View(
        revision=9,
        members={shard: Member(shard) for shard in members},
        plan=Plan(1, (seat,)),
        plan_revision=3,
        leader=None,
        owners={} if holder is None else {0: Holder(holder, 5)},
        ready={} if ready is None else {0: Holder(ready, 7)},
        pins={},
        drain=None,
        rebalance_off=False,
        rebalance_now_revision=0,
    )
    return orders(view, "me", held, lambda shard, partition: suspect)


def test_what_nobody_owns_is_claimed_by_whom_the_plan_names() -> None:
    assert order(Seat("me")).claim == {0: 0}
    assert order(Seat("other", "me")) == Orders(mirror={0: "other"})
    assert order(Seat("other")) == Orders()


def test_the_standby_claims_when_the_owner_is_no_member_any_more() -> None:
    assert order(Seat("other", "me"), members=("me",)).claim == {0: 0}


def test_a_key_that_is_mine_without_firing_is_claimed_again_or_released() -> None:
    assert order(Seat("me"), "me").claim == {0: 5}
    assert order(Seat("other"), "me").release == {0: 5}
    assert order(Seat("gone"), "me").claim == {0: 5}


def test_what_was_taken_from_me_is_dropped() -> None:
    assert order(Seat("me"), "other", held=[0]).drop == [0]
    assert order(Seat("me"), None, held=[0]).drop == [0]


def test_a_move_waits_until_the_next_owner_is_ready() -> None:
    assert order(Seat("other"), "me", held=[0]) == Orders()
    assert order(Seat("other"), "me", held=[0], ready="third") == Orders()
    assert order(Seat("other"), "me", held=[0], ready="other").hand_over == {0: 7}
    assert order(Seat("me"), "other") == Orders(mirror={0: "other"}, awaited=[0])


def test_only_the_standby_of_a_suspect_replaces_its_key() -> None:
    given = order(Seat("other", "me"), "other", suspect=True)
    assert (given.claim, given.replace) == ({0: 5}, {0: "other"})
    assert order(Seat("other", "me"), "third", suspect=True).claim == {}
    assert order(Seat("third", "other"), "third", suspect=True) == Orders()


def view_of(*seats: Seat, owners: dict[int, str], ready: dict[int, tuple[str, int]]) -> View:
    return View(
        revision=99,
        members={shard: Member(shard) for shard in ("me", "b", "c")},
        plan=Plan(1, seats),
        plan_revision=3,
        leader=None,
        owners={partition: Holder(shard, 5) for partition, shard in owners.items()},
        ready={partition: Holder(*said) for partition, said in ready.items()},
        pins={},
        drain=None,
        rebalance_off=False,
        rebalance_now_revision=0,
    )


def never(_shard: str, _partition: int) -> bool:
    return False


def test_a_group_a_time_goes_to_each_next_owner_and_the_next_when_it_was_taken() -> None:
    seats = [Seat("b"), Seat("b"), Seat("b"), Seat("c"), Seat("c")]
    ready = {0: ("b", 20), 1: ("b", 20), 2: ("b", 21), 3: ("c", 30), 4: ("c", 31)}
    mine = dict.fromkeys(range(5), "me")
    view = view_of(*seats, owners=mine, ready=ready)
    assert set(orders(view, "me", range(5), never).hand_over) == {0, 1, 3}
    # Both were given them; c has taken what it got, b has not.
    handed = view_of(*seats, owners={2: "me", 3: "c", 4: "me"}, ready=ready)
    assert set(orders(handed, "me", [2, 4], never).hand_over) == {4}


def test_something_moves_while_a_key_does_not_name_whom_the_plan_names() -> None:
    assert not is_moving(view_of(Seat("b"), Seat("c"), owners={0: "b", 1: "c"}, ready={}))
    assert is_moving(view_of(Seat("b"), Seat("c"), owners={0: "b", 1: "b"}, ready={}))
    assert is_moving(view_of(Seat("b"), Seat("c"), owners={0: "b"}, ready={}))
    assert not is_moving(view_of(Seat("b"), Seat("gone"), owners={0: "b"}, ready={}))
