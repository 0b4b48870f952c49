"""Delivering callbacks: signed, tried again ever later, given up in the end; none holds up the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

import trio
from trio.testing import MockClock, trio_test, wait_all_tasks_blocked

from shardwheel.errors import UnavailableError
from shardwheel.execution import Callback
from shardwheel.results.callbacks import PLACES_OF_ONE, Callbacks
from shardwheel.service import Service
from shardwheel.signature import is_signed

HOUR_MS = 3_600_000
TAKEN_MS = 1_795_003_200_000


def callback(number: int = 1, **fields: object) -> Callback:
    values = {
        "callback_id": number.to_bytes(16, "big"),
        "url": "https://example.com/",
        "host": "example.com",
        "body": b'{"n": %d}' % number,
        "tries": 1,
        "age_ms": 0,
        "taken_ms": TAKEN_MS,
    }
    return Callback(**(values | fields))  # type: ignore[arg-type]


class Outbox:
    """Hands out what it holds, and keeps what became of it."""

    def __init__(self, *callbacks: Callback) -> None:
        self.waiting = list(callbacks)
        self.busy: list[Sequence[str]] = []
        self.ends: list[tuple[int, str | None, timedelta | None]] = []
        self.away = False

    async def take_callbacks(self, most: int, busy: Collection[str]) -> list[Callback]:
        if self.away:
            raise UnavailableError("away")
        self.busy.append(sorted(busy))
        free = [one for one in self.waiting if one.host not in busy][:most]
        taken, counts = [], dict.fromkeys((one.host for one in free), 0)
        for one in free:
            if counts[one.host] < PLACES_OF_ONE:
                counts[one.host] += 1
                taken.append(one)
                self.waiting.remove(one)
        return taken

    async def callback_delivered(self, callback: Callback) -> None:
        self.ends.append((callback.tries, None, None))

    async def callback_failed(self, callback: Callback, problem: str, pause: timedelta | None) -> None:
        self.ends.append((callback.tries, problem, pause))


class Post:
    """Takes what is posted; fails with `problem`, or hangs for some hosts."""

    def __init__(self, problem: str = "", hangs: str = "") -> None:
        self._problem = problem
        self._hangs = hangs
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []

    async def post(self, url: str, body: bytes, headers: dict[str, str]) -> None:
        self.sent.append((url, body, headers))
        if self._hangs and self._hangs in url:
            await trio.sleep_forever()
        if self._problem:
            raise UnavailableError(self._problem)


def delivering(outbox: Outbox, post: Post, *, secret: str = "secret") -> Callbacks:
    return Callbacks(Service("results"), outbox, post, secret=secret, limit=timedelta(hours=12))


async def delivered(outbox: Outbox, post: Post) -> list[tuple[int, str | None, timedelta | None]]:
    async with trio.open_nursery() as nursery:
        await delivering(outbox, post).run_once(nursery)
    return outbox.ends


@trio_test
async def test_what_is_sent_is_signed_and_named() -> None:
    outbox, post = Outbox(callback(7)), Post()
    assert await delivered(outbox, post) == [(1, None, None)]
    ((url, body, headers),) = post.sent
    assert (url, body) == ("https://example.com/", b'{"n": 7}')
    assert is_signed("secret", body, headers["Shardwheel-Signature"], now_s=TAKEN_MS / 1000)
    assert headers["Shardwheel-Callback"] == "00000000-0000-0000-0000-000000000007"


@trio_test
async def test_a_failure_is_tried_again_ever_later_and_given_up_in_the_end() -> None:
    first, tenth, last = (
        callback(tries=n, age_ms=age) for n, age in ((1, 0), (10, HOUR_MS), (15, 12 * HOUR_MS))
    )
    ends = await delivered(Outbox(first, tenth, last), Post("answered 500"))
    pauses = {tries: pause for tries, problem, pause in ends if problem == "answered 500"}
    assert pauses[1] is not None and 9 <= pauses[1].total_seconds() <= 11
    assert pauses[10] is not None and 3240 <= pauses[10].total_seconds() <= 3960
    assert pauses[15] is None


@trio_test
async def test_a_receiver_that_hangs_keeps_few_places() -> None:
    hanging = [callback(n, url="https://hangs/", host="hangs") for n in range(10)]
    outbox, post = Outbox(*hanging, callback(11)), Post(hangs="hangs")
    async with trio.open_nursery() as nursery:
        callbacks = delivering(outbox, post)
        assert await callbacks.run_once(nursery) == PLACES_OF_ONE + 1
        await wait_all_tasks_blocked()
        assert await callbacks.run_once(nursery) == 0
        assert outbox.busy == [[], ["hangs"]]
        assert outbox.ends == [(1, None, None)]
        nursery.cancel_scope.cancel()


@trio_test
async def test_nothing_goes_out_unsigned() -> None:
    outbox, post = Outbox(callback()), Post()
    async with trio.open_nursery() as nursery:
        assert await delivering(outbox, post, secret="").run_once(nursery) == 0
    assert (post.sent, outbox.busy) == ([], [])


def test_the_loop_outlives_a_store_that_is_away_and_ends_when_asked() -> None:
    async def main() -> None:
        service, outbox, post = Service("results"), Outbox(callback()), Post()
        outbox.away = True
        Callbacks(service, outbox, post, secret="s", limit=timedelta(hours=1)).add_to_service()
        async with trio.open_nursery() as nursery:
            for _, loop in service._loops:
                nursery.start_soon(loop)
            await trio.sleep(5)
            assert service.health.parts == {"callbacks": "away"}
            outbox.away = False
            await trio.sleep(5)
            assert service.health.parts == {"callbacks": None}
            service.stop()
        assert outbox.ends == [(1, None, None)]

    trio.run(main, clock=MockClock(autojump_threshold=0))
