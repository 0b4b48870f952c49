"""Our cron against the slow model of cron_cases.py, at every change of the clocks from 2020 to 2040 in
fourteen zones, under every policy for gaps and folds. There are no exceptions here."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import get_args

from shardwheel.zone import DstFold, DstGap
from tests.property.cron_cases import all_changes, draw_night_case, model_times, to_ms

AROUND = timedelta(hours=26)


def test_at_every_change_of_the_clocks_the_model_agrees() -> None:
    random = Random(2040)
    seen = 0
    for zone, change in all_changes() * 2:
        case = draw_night_case(random)
        gap, fold = random.choice(get_args(DstGap)), random.choice(get_args(DstFold))
        after, through = change - AROUND, change + AROUND
        schedule = case.schedule(zone, gap, fold)
        times = list(schedule.times_between(to_ms(after), to_ms(through)))
        told = (case.text, zone, gap, fold, change)
        assert times == model_times(case, zone, gap, fold, after, through), told
        assert schedule.count_between(to_ms(after), to_ms(through)) == len(times), told
        seen += bool(times)
    assert seen > 700
