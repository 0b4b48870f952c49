"""When the producer starts over: on lines that land or fail as the test says, under a clock that jumps."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock, trio_test

from shardwheel import kafka_producer
from shardwheel.cycles import Flight
from shardwheel.kafka_producer import DEPART_MESSAGES, STEP_MESSAGES, KafkaProducer
from shardwheel.ports import Message

STALL_S = 10.0


class FakeLine:
    """Lands what it was handed at the next poll if `good`; else it never does."""

    good = False
    made: list[FakeLine]

    def __init__(self, _settings: object) -> None:
        self.failure = self.last_error = ""
        self.made_at = trio.current_time()
        self.sent: list[Flight] = []
        self.steps: list[int] = []
        self.let_go_of = False
        self.made.append(self)

    def send(self, flight: Flight) -> None:
        self.sent.append(flight)

    def hand_over(self, most: int) -> None:
        self.steps.append(most)

    def poll(self) -> None:
        if self.good and not self.failure:
            for flight in self.sent:
                flight.landed = True

    def fail(self, reason: str) -> None:
        self.failure = reason

    async def let_go(self) -> None:
        self.let_go_of = True


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[FakeLine]:
    monkeypatch.setattr(FakeLine, "made", [], raising=False)
    monkeypatch.setattr(FakeLine, "good", False)
    monkeypatch.setattr(kafka_producer, "Line", FakeLine)
    return FakeLine.made


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


def make_producer() -> KafkaProducer:
    return KafkaProducer({}, buffer_messages=100_000, stall_s=STALL_S, close_limit_s=1.0)


def messages(count: int) -> list[Message]:
    return [Message("topic", 0, b"key", b"value")] * count


@trio_test
async def test_a_failed_line_is_replaced_and_gets_all_again_in_order(
    lines: list[FakeLine], clock: MockClock
) -> None:
    producer = make_producer()
    for _ in range(3):
        producer.publish(messages(DEPART_MESSAGES))
    lines[0].sent[1].landed = True
    lines[0].fail("a delivery failed")
    FakeLine.good = True
    with trio.fail_after(60):
        await producer.wait_acknowledged(3)
    first, second = lines
    assert second.sent == [first.sent[0], first.sent[2]]
    assert first.let_go_of and producer.renewals == 1
    await producer.close()


@trio_test
async def test_silence_ends_a_line_and_patience_grows(lines: list[FakeLine], clock: MockClock) -> None:
    producer = make_producer()
    producer.publish(messages(1))
    while len(lines) < 4:
        await trio.sleep(1)
    pauses = [later.made_at - earlier.made_at for earlier, later in pairwise(lines)]
    assert [round(pause / STALL_S) for pause in pauses] == [1, 2, 4]
    FakeLine.good = True
    await producer.wait_acknowledged(1)
    FakeLine.good = False
    producer.publish(messages(1))
    await trio.sleep(1.5 * STALL_S)
    assert len(lines) == 5
    await producer.close()


@trio_test
async def test_an_idle_producer_never_starts_over(lines: list[FakeLine], clock: MockClock) -> None:
    FakeLine.good = True
    producer = make_producer()
    for ticket in (1, 2):
        producer.publish(messages(1))
        await producer.wait_acknowledged(ticket)
        await trio.sleep(10 * STALL_S)
    assert producer.renewals == 0
    await producer.close()


@trio_test
async def test_no_step_hands_over_more_than_its_share(lines: list[FakeLine], clock: MockClock) -> None:
    """Publishing a full buffer again must not stop the ticks for a second."""
    producer = make_producer()
    producer.publish(messages(20 * STEP_MESSAGES))
    await trio.sleep(1)
    assert set(lines[0].steps) == {STEP_MESSAGES}
    await producer.close()
