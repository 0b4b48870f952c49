"""Families of jobs: keys, edges and limits, without any store."""

from __future__ import annotations

import pytest

from shardwheel.errors import UsageError
from shardwheel.family import Family, Member, key_for
from shardwheel.ids import text_of


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


def family_of(*parents: tuple[int, ...]) -> Family:
    """Members 0, 1, …, each with its parents' numbers; 0 is the root."""
    members = [
        Member(job(number), str(number), "work", tuple(map(job, above)))
        for number, above in enumerate(parents)
    ]
    return Family(job(0), 1, {one.job_id: one for one in members})


def test_a_name_is_a_key_where_it_can_be_one_and_is_free() -> None:
    assert key_for("check", job(1), {"import"}) == "check"
    for name in ("import", "", "two words", "x" * 101):
        assert key_for(name, job(1), {"import"}) == text_of(job(1))


def test_who_is_gone_is_nobodys_parent() -> None:
    left = family_of((), (0,), (0, 1)).without(job(1))
    assert left.definition() == {
        "tasks": [
            {"key": "0", "task": "work", "depends_on": []},
            {"key": "2", "task": "work", "depends_on": ["0"]},
        ]
    }
    assert family_of((), (0,), (1,), (0, 1)).orphans_without(job(1)) == [
        Member(job(2), "2", "work", (job(1),))
    ]


@pytest.mark.parametrize(
    ("child", "parent", "cycle"), [(1, 2, "1 → 2 → 1"), (0, 2, "0 → 1 → 2 → 0"), (1, 1, "1 → 1")]
)
def test_a_cycle_is_spelled_out(child: int, parent: int, cycle: str) -> None:
    with pytest.raises(UsageError, match=cycle) as refused:
        family_of((), (0,), (1,)).with_edge(job(child), job(parent)).check("parent_id")
    assert refused.value.field == "parent_id"


def test_depth_and_size_have_limits() -> None:
    chain: list[tuple[int, ...]] = [(), *((number,) for number in range(999))]
    family_of(*chain).check("parents")
    with pytest.raises(UsageError, match="chain of 1001"):
        family_of(*chain, (999,)).check("parents")
    wide: list[tuple[int, ...]] = [(), *[(0,)] * 9_999]
    family_of(*wide).check("parents")
    with pytest.raises(UsageError, match="10001 tasks"):
        family_of(*wide, (0,)).check("parents")
