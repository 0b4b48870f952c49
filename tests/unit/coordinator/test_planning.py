"""The plan over random histories of joins, deaths, drains and pins: bounds of movement and of balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwheel.coordinator.planning import changes, make_plan, with_takeovers
from shardwheel.partition import PARTITIONS
from shardwheel.records import Member, MemberState, Plan, Seat


def members(*names: str) -> list[Member]:
    return [Member(name) for name in names]


def owned(plan: Plan) -> Counter[str]:
    return Counter(seat.owner for seat in plan.partitions)


def check_seats(plan: Plan, present: Sequence[Member], pins: Mapping[int, str]) -> None:
    """What holds of every plan: active members alone, other zones for standbys, pins, balance."""
    zones = {member.shard_id: member.zone for member in present if member.state == MemberState.ACTIVE}
    for seat in plan.partitions:
        assert seat.owner in zones
        others = {name for name in zones if name != seat.owner}
        elsewhere = {name for name in others if zones[name] != zones[seat.owner]}
        assert seat.standby in (elsewhere or others) if others else seat.standby is None
    fixed = {p: shard for p, shard in pins.items() if shard in zones}
    assert all(plan.partitions[p].owner == shard for p, shard in fixed.items())
    pinned = Counter(fixed.values())
    counts = [n for shard, n in owned(plan).items() if n > pinned[shard]]
    counts += [0 for shard in zones if shard not in owned(plan)]
    assert not counts or max(counts) - min(counts) <= 1


step = st.tuples(
    st.sampled_from(["join", "join", "die", "drain", "undrain", "pin", "unpin"]),
    st.integers(0, PARTITIONS - 1),
    st.integers(0, 30),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(step, min_size=1, max_size=14), st.integers(1, 3))
def test_any_history_stays_balanced_and_moves_only_what_must(
    history: list[tuple[str, int, int]], zones: int
) -> None:
    present = {"s0": Member("s0", "z0")}
    pins: dict[int, str] = {}
    plan = make_plan(None, list(present.values()), pins)
    for number, (verb, partition, pick) in enumerate(history, start=1):
        before = dict(present)
        chosen = sorted(present)[pick % len(present)]
        pinned_before = dict(pins)
        if verb == "join":
            present[f"s{number}"] = Member(f"s{number}", f"z{pick % zones}")
        elif verb == "die" and len(present) > 1:
            del present[chosen]
        elif verb in ("drain", "undrain"):
            state = MemberState.DRAINING if verb == "drain" else MemberState.ACTIVE
            present[chosen] = msgspec.structs.replace(present[chosen], state=state)
        elif verb == "pin":
            pins[partition] = chosen
        elif verb == "unpin":
            pins.pop(partition, None)
        if not any(member.state == MemberState.ACTIVE for member in present.values()):
            present = before
            continue
        following = make_plan(plan, list(present.values()), pins)
        assert following == make_plan(plan, list(reversed(present.values())), pins)
        assert make_plan(following, list(present.values()), pins) is following
        check_seats(following, list(present.values()), pins)
        if not pins and not pinned_before:
            check_movement(plan, following, before, present)
        plan = following


def check_movement(
    plan: Plan, following: Plan, before: Mapping[str, Member], after: Mapping[str, Member]
) -> None:
    """A newcomer takes its share and nothing moves between the others; a leaver loses its own alone."""
    active_before = {name for name, member in before.items() if member.state == MemberState.ACTIVE}
    active_after = {name for name, member in after.items() if member.state == MemberState.ACTIVE}
    came, went = active_after - active_before, active_before - active_after
    moves = changes(plan, following)
    if came:
        assert {move.target for move in moves} <= came
        assert len(moves) in (PARTITIONS // len(active_after), -(-PARTITIONS // len(active_after)))
    elif went:
        assert {move.source for move in moves} == went
        assert len(moves) == sum(owned(plan)[name] for name in went)
    else:
        assert moves == []


def test_a_death_leaves_the_plan_that_the_takeovers_made() -> None:
    for count in range(2, 12):
        names = [f"shard-{n}" for n in range(count)]
        plan = make_plan(None, members(*names), {})
        following = make_plan(plan, members(*names[1:]), {})
        moves = changes(plan, following)
        assert {move.source for move in moves} == {names[0]}
        assert all(move.target == plan.partitions[move.partition].standby for move in moves)


def test_standbys_are_level_and_few_of_them_change_when_a_shard_joins() -> None:
    plan = make_plan(None, members("a", "b", "c"), {})
    following = make_plan(plan, members("a", "b", "c", "d"), {})
    standbys = Counter(seat.standby for seat in following.partitions)
    assert max(standbys.values()) - min(standbys.values()) <= 3
    changed = sum(
        old.standby != new.standby for old, new in zip(plan.partitions, following.partitions, strict=True)
    )
    assert changed <= PARTITIONS // 4 + 4


def test_keep_moves_only_what_has_lost_its_owner_and_what_was_asked_for() -> None:
    plan = make_plan(None, members("a", "b"), {})
    joined = make_plan(plan, members("a", "b", "c"), {}, keep=True)
    assert joined is plan
    pin = next(p for p, seat in enumerate(plan.partitions) if seat.owner == "a")
    pinned = make_plan(plan, members("a", "b", "c"), {pin: "c"}, keep=True)
    assert [tuple(move) for move in changes(plan, pinned)] == [(pin, "a", "c")]
    drained = make_plan(
        pinned, [Member("a", state=MemberState.DRAINING), *members("b", "c")], {pin: "c"}, keep=True
    )
    assert {move.source for move in changes(pinned, drained)} == {"a"}
    assert "a" not in {seat.standby for seat in drained.partitions}


def test_without_mirroring_nothing_has_a_standby() -> None:
    plan = make_plan(None, members("a", "b"), {}, mirrored=False)
    assert {seat.standby for seat in plan.partitions} == {None}
    assert owned(plan) == owned(make_plan(None, members("a", "b"), {}))


def test_pins_beyond_a_fair_share_hold_and_the_others_share_the_rest() -> None:
    pins = dict.fromkeys(range(200), "a")
    plan = make_plan(None, members("a", "b", "c"), pins)
    assert owned(plan) == {"a": 200, "b": 28, "c": 28}
    assert owned(make_plan(plan, members("a", "b", "c"), {})) == {"a": 86, "b": 85, "c": 85}


def test_the_last_shard_keeps_firing_while_it_drains_and_a_leaving_one_gets_nothing() -> None:
    alone = make_plan(None, members("a"), {})
    assert set(alone.partitions) == {Seat("a", None)}
    assert make_plan(alone, [Member("a", state=MemberState.DRAINING)], {}) is alone
    assert make_plan(alone, [Member("a", state=MemberState.LEAVING)], {}) is alone
    assert set(make_plan(None, [], {}).partitions) == {Seat("", None)}


def test_a_takeover_by_the_standby_swaps_the_two() -> None:
    plan = make_plan(None, members("a", "b", "c"), {})
    owner, standby = plan.partitions[7]
    assert standby is not None
    swapped = with_takeovers(plan, {7: standby, 8: plan.partitions[8].owner, 9: "somebody else"})
    assert swapped.partitions[7] == Seat(standby, owner)
    assert swapped.generation == plan.generation + 1
    assert changes(plan, swapped) == [(7, owner, standby)]
    assert with_takeovers(plan, {}) is plan


def test_a_plan_reads_back_from_json_as_it_was() -> None:
    plan = make_plan(None, members("a", "b"), {})
    text = msgspec.json.encode(plan)
    assert msgspec.json.decode(text, type=Plan) == plan
    assert msgspec.json.decode(text)["partitions"][0] == list(plan.partitions[0])


def test_the_same_members_get_the_same_plan_for_ever() -> None:
    """Frozen: shards of two versions must agree while one replaces the other."""
    plan = make_plan(None, members("a", "b", "c"), {})
    assert "".join(seat.owner for seat in plan.partitions[:32]) == "bbbbbababbccbbcaabcacabaabbbbaab"
