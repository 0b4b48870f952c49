"""Who is first, the task that gives up or the thread that commits: every order of the two."""

from __future__ import annotations

import threading
from typing import cast

import pytest
import trio
from trio.testing import trio_test

from shardwheel.errors import UnavailableError
from shardwheel.store.call import Call, GivenUpError
from shardwheel.store.link import Link

PATIENCE_S = 90.0


class FakeLink:
    def __init__(self) -> None:
        self._cut = threading.Event()

    @property
    def is_cut(self) -> bool:
        return self._cut.is_set()

    def cut(self) -> None:
        self._cut.set()

    def wait_until_cut(self) -> None:
        assert self._cut.wait(PATIENCE_S)


def attached() -> tuple[Call, FakeLink]:
    call, link = Call(), FakeLink()
    call.attach(cast(Link, link))
    return call, link


def test_given_up_before_the_commit_it_is_never_sent() -> None:
    call, link = attached()
    call.give_up()
    assert link.is_cut
    with pytest.raises(GivenUpError) as caught:
        call.begin_commit()
    assert not caught.value.maybe_applied
    assert not call.maybe_applied
    assert call.detach() is False


def test_given_up_during_the_commit_its_outcome_is_open() -> None:
    call, link = attached()
    call.begin_commit()
    call.give_up()
    assert link.is_cut
    assert call.maybe_applied


def test_a_commit_that_was_answered_with_a_failure_is_not_open() -> None:
    call, _ = attached()
    call.begin_commit()
    call.commit_failed()
    assert not call.maybe_applied


def test_a_link_that_went_back_is_not_cut() -> None:
    call, link = attached()
    assert call.detach() is True
    call.give_up()
    assert not link.is_cut


def test_who_has_given_up_gets_no_link() -> None:
    call = Call()
    call.give_up()
    with pytest.raises(GivenUpError):
        call.attach(cast(Link, FakeLink()))


@trio_test
async def test_work_without_end_is_given_up_at_the_limit() -> None:
    call, link = attached()
    places = trio.CapacityLimiter(1)
    with pytest.raises(UnavailableError, match=r"within 0\.01 s"):
        await call.in_thread(link.wait_until_cut, limit_s=0.01, places=places)
    assert link.is_cut
    # The thread has its place until it has ended, however long ago it was given up.
    with trio.fail_after(PATIENCE_S):
        await places.acquire()
