"""When a request is sent again, and what is raised when it is not."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from shardwheel.client.retrying import persist
from shardwheel.client.script import Lost, Pause, Reply, Send
from shardwheel.errors import LimitedError, ShardwheelError, UnavailableError, UsageError

GOOD = Reply(200, b"{}")
UNSENT = Lost(httpx.ConnectError("refused"), maybe_sent=False)
CUT_OFF = Lost(httpx.ReadError("cut off"), maybe_sent=True)
PROXY = Reply(502, b"<html>", content_type="text/html")


def refusal(status: int, retry_after: str = "", **more: Any) -> Reply:
    return Reply(status, msgspec.json.encode({"error": {"code": "c", "message": "m"} | more}), retry_after)


NOT_DONE = refusal(503, "2", maybe_applied=False)
MAYBE_DONE = refusal(503, "1", maybe_applied=True)
LIMITED = refusal(429, "7")
LIMITED_BEFORE = Reply(429, b"<html>", "7", "text/html")


class Story:
    """Answers a script with these replies, and keeps what it paused for. The last one comes for ever."""

    def __init__(self, *replies: Reply | Lost, repeatable: bool = False, limit_s: float = 30) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []
        self._replies = list(replies)
        self._script = persist(
            Send("POST", "/x"), repeatable=repeatable, until_s=limit_s, now_s=lambda: self.now_s
        )

    def play(self) -> Reply:
        answer: Any = None
        try:
            while True:
                match self._script.send(answer):
                    case Pause(seconds):
                        self.now_s += seconds
                        self.pauses.append(seconds)
                        answer = None
                    case _:
                        answer = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        except StopIteration as end:
            reply: Reply = end.value
            return reply


@pytest.mark.parametrize("passing", [UNSENT, NOT_DONE, LIMITED, LIMITED_BEFORE])
def test_what_was_not_done_is_sent_again_whatever_it_is(passing: Reply | Lost) -> None:
    story = Story(passing, passing, GOOD)
    assert story.play() == GOOD and len(story.pauses) == 2


@pytest.mark.parametrize("doubtful", [CUT_OFF, MAYBE_DONE, PROXY])
def test_what_may_have_been_done_is_sent_again_only_if_twice_is_once(doubtful: Reply | Lost) -> None:
    assert Story(doubtful, GOOD, repeatable=True).play() == GOOD
    story = Story(doubtful, GOOD)
    with pytest.raises(UnavailableError) as caught:
        story.play()
    assert caught.value.maybe_applied and story.pauses == []
    if doubtful is not MAYBE_DONE:
        assert "; " in str(caught.value), "it says what to do"


def test_a_server_that_asks_for_time_gets_it() -> None:
    story = Story(LIMITED, NOT_DONE, GOOD)
    story.play()
    assert story.pauses == [7, 2]


def test_pauses_grow_and_end_at_the_limit() -> None:
    story = Story(UNSENT, limit_s=20)
    with pytest.raises(UnavailableError, match=r"out of reach \(refused\); see that it is up") as caught:
        story.play()
    assert not caught.value.maybe_applied and isinstance(caught.value.__cause__, httpx.ConnectError)
    assert 0.05 <= story.pauses[0] <= 0.1 and max(story.pauses) <= 5 and 15 <= story.now_s <= 20


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refusal(400, field="cron"), UsageError),
        (refusal(405), UsageError),
        (refusal(500), UnavailableError),
        (Reply(404, b"<html>"), UsageError),
        (Reply(302, b""), UsageError),
        (Reply(400, b'{"error": "no"}'), UsageError),
    ],
)
def test_what_would_go_wrong_again_is_not_sent_again(reply: Reply, kind: type[ShardwheelError]) -> None:
    story = Story(reply, repeatable=True)
    with pytest.raises(kind) as caught:
        story.play()
    assert story.pauses == []
    if reply.status == 400 and b"cron" in reply.body:
        assert isinstance(caught.value, UsageError) and caught.value.field == "cron"


def test_who_is_limited_beyond_the_limit_is_told() -> None:
    for limited in (LIMITED, LIMITED_BEFORE):
        with pytest.raises(LimitedError) as caught:
            Story(limited, limit_s=5).play()
        assert caught.value.retry_after_s == 7


def test_nobody_is_told_to_look_whether_a_read_was_done() -> None:
    script = persist(Send("GET", "/x"), repeatable=True, until_s=0, now_s=lambda: 1.0)
    next(script)
    with pytest.raises(UnavailableError, match=r"did not answer \(cut off\); see that it is up") as failure:
        script.send(CUT_OFF)
    assert not failure.value.maybe_applied
