"""Missed times: every time has exactly one fate, and it is the one that the table in `missed` says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardwheel.missed import Policy, fates, fire_time
from shardwheel.schedule import Definition, schedule_from
from shardwheel.timing import Timing

JOB = bytes(range(16))
NOW_MS = 1_795_003_200_000


def expected(times: list[tuple[int, int]], policy: Policy) -> dict[int, str | None]:
    """The reference: time by time, with no spans. `times` are (scheduled, fire time)."""
    fate: dict[int, str | None] = {}
    missed = [scheduled for scheduled, due in times if due < NOW_MS - policy.grace_ms]
    within = [scheduled for scheduled in missed if scheduled >= NOW_MS - policy.window_ms]
    for scheduled, _ in times:
        if scheduled not in missed:
            fate[scheduled] = None
        elif scheduled not in within:
            fate[scheduled] = "catchup_window"
        elif policy.misfire == "fire_all" or (policy.misfire == "fire_last" and scheduled == within[-1]):
            fate[scheduled] = None
        else:
            fate[scheduled] = "misfire"
    return fate


@given(
    every_ms=st.sampled_from([1_000, 7_000, 60_000, 600_000]),
    jitter_ms=st.sampled_from([0, 500, 5_000, 90_000]),
    misfire=st.sampled_from(["fire_all", "fire_last", "skip"]),
    grace_ms=st.sampled_from([0, 1_000, 60_000]),
    window_ms=st.sampled_from([0, 30_000, 3_600_000]),
    behind_ms=st.integers(0, 400_000),
    ahead_ms=st.integers(0, 20_000),
)
def test_every_time_has_the_fate_of_the_table(
    every_ms: int, jitter_ms: int, misfire: str, grace_ms: int, window_ms: int, behind_ms: int, ahead_ms: int
) -> None:
    timing = Timing(schedule_from(Definition(every_ms=every_ms)), anchor_ms=NOW_MS - 1_000_003)
    policy = Policy(misfire, grace_ms, window_ms)
    first_ms, until_ms = NOW_MS - behind_ms, NOW_MS + ahead_ms
    scheduled = timing.times_between(first_ms - 1, until_ms - 1)
    times = [(at, fire_time(timing.schedule, JOB, at, timing.anchor_ms, jitter_ms)) for at in scheduled]
    got: dict[int, str | None] = {}
    for span in fates(timing, JOB, jitter_ms, policy, first_ms, until_ms, NOW_MS):
        for at in timing.times_between(span.first_ms - 1, span.until_ms - 1):
            assert at not in got
            got[at] = span.skip_as
    assert got == expected(times, policy)
