"""The account of a tenant: what it may submit, and when to come again."""

from __future__ import annotations

import pytest

from shardwheel.api.errors import refusal_of
from shardwheel.api.quotas import Account
from shardwheel.errors import LimitedError
from shardwheel.store.tenant_limits import Quota, Standing


def account(active: int = 0, **limits: int) -> Account:
    return Account(Standing(Quota(**limits), active), 0.0)


def test_as_many_as_the_rate_allows_and_again_later() -> None:
    mine = account(submissions_per_s=2)
    mine.submit(1, 0.0)
    mine.submit(1, 0.0)
    with pytest.raises(LimitedError) as refused:
        mine.submit(1, 0.1)
    assert (refused.value.field, refused.value.retry_after_s) == ("submissions_per_s", 1)
    mine.submit(1, 0.6)


def test_a_batch_passes_whole_and_what_follows_waits_for_it() -> None:
    mine = account(submissions_per_s=10)
    mine.submit(100, 0.0)
    with pytest.raises(LimitedError) as refused:
        mine.submit(1, 1.0)
    refusal = refusal_of(refused.value)
    assert refusal is not None and refusal.headers() == {"retry-after": "9"}
    mine.submit(1, 9.2)


def test_time_saves_up_a_second_and_no_more() -> None:
    mine = account(submissions_per_s=5)
    for _ in range(5):
        mine.submit(1, 1_000.0)
    with pytest.raises(LimitedError):
        mine.submit(1, 1_000.0)


def test_active_jobs_are_counted_up_until_they_are_read_again() -> None:
    mine = account(active=8, active_jobs=10)
    mine.add_active(2)
    with pytest.raises(LimitedError):
        mine.add_active(1)
    mine.refresh(Standing(Quota(active_jobs=10), 9), 1.0)
    mine.add_active(1)


def test_without_limits_nothing_is_refused() -> None:
    mine = account(active=10**6)
    for _ in range(100):
        mine.submit(1_000, 0.0)
        mine.add_active(1_000)
