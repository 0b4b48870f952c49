"""What follows an end, on real PostgreSQL: a receiver on loopback is told, the topic has the dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import trio_test

from shardwheel.destinations import CallbackRules
from shardwheel.ids import text_of
from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.results.callbacks import Callbacks
from shardwheel.results.letters import LetterMirror
from shardwheel.service import Service
from shardwheel.signature import is_signed
from shardwheel.store.callbacks import callbacks_of
from shardwheel.store.ends import EndStore
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.letters import get_letter, list_letters
from shardwheel.store.pool import Pool
from shardwheel.topics import DEAD_LETTERS
from shardwheel.webhooks import Webhooks
from shardwheel.wire import Outcome
from tests.integration.store.gate import Gate, result_of
from tests.unit.receiver import OK, Receiver

pytestmark = pytest.mark.servers
LAX = CallbackRules(("http",), ("localhost",))
OOPS = b"HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    yield rig
    rig.close()


def end(gate: Gate, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> bytes:
    (run,) = gate.claim(gate.fire()).claimed
    gate.settle(result_of(run, outcome, **fields))
    return run.execution_id


@trio_test
async def test_a_receiver_is_told_again_until_it_has_taken_it(gate: Gate) -> None:
    async with Receiver(OOPS, OK).open() as receiver, Pool(gate.dsn, name="ends", size=2) as pool:
        gate.update(gate.job_id, callback_url=f"http://localhost:{receiver.port}/done")
        execution = end(gate, output=b'{"sent": 3}')
        limit = timedelta(hours=12)
        callbacks = Callbacks(Service("r"), EndStore(pool), Webhooks(LAX), secret="s", limit=limit)
        for tries, state in ((1, "open"), (2, "delivered")):
            async with trio.open_nursery() as nursery:
                assert await callbacks.run_once(nursery) == 1
            (shown,) = callbacks_of(gate.conn, "t", [execution])[execution]
            assert (shown["tries"], shown["state"]) == (tries, state)
            gate.conn.execute("UPDATE shardwheel.callbacks SET due_at = now()")
        async with trio.open_nursery() as nursery:
            assert await callbacks.run_once(nursery) == 0
    (_, first), (_, second) = receiver.requests
    assert first == second
    assert receiver.header("shardwheel-callback") == shown["id"] == msgspec.json.decode(second)["id"]
    now_s = read_now_ms(gate.conn) / 1000
    assert is_signed("s", second, receiver.header("shardwheel-signature"), now_s=now_s)
    told = msgspec.json.decode(second)["execution"]
    assert (told["id"], told["output"]) == (text_of(execution), {"sent": 3})


@trio_test
async def test_one_that_never_takes_it_is_given_up_and_says_so(gate: Gate) -> None:
    async with Receiver(OOPS).open() as receiver, Pool(gate.dsn, name="ends", size=2) as pool:
        gate.update(gate.job_id, callback_url=f"http://localhost:{receiver.port}/")
        execution = end(gate)
        callbacks = Callbacks(Service("r"), EndStore(pool), Webhooks(LAX), secret="s", limit=timedelta(0))
        async with trio.open_nursery() as nursery:
            await callbacks.run_once(nursery)
    (shown,) = callbacks_of(gate.conn, "t", [execution])[execution]
    assert (shown["state"], shown["problem"]) == ("given_up", "answered 503")


@trio_test
async def test_the_topic_has_what_the_letter_has(gate: Gate) -> None:
    end(gate, Outcome.FATAL, error_class="ValueError", message="no", traceback="line 1")
    bus = MemoryBus(MemoryKafka())
    async with Pool(gate.dsn, name="ends", size=2) as pool:
        mirror = LetterMirror(Service("r"), EndStore(pool), bus, 4)
        assert await mirror.run_once() == 1
        assert await mirror.run_once() == 0
    (listed,) = list_letters(gate.conn, "t").items
    letter = get_letter(gate.conn, "t", bytes.fromhex(listed["id"].replace("-", "")))
    assert letter.pop("published_at") is not None
    (record,) = await bus.consumer("audience", [DEAD_LETTERS]).take(10, 1.0)
    assert (record.key, record.topic_partition) == (gate.job_id, 7 % 4)
    expected = letter | {"version": 1, "tenant_id": "t", "shortened": False}
    assert msgspec.json.decode(record.value) == expected


@trio_test
async def test_a_letter_whose_publisher_died_is_taken_by_the_next(gate: Gate) -> None:
    end(gate, Outcome.FATAL)
    async with Pool(gate.dsn, name="ends", size=2) as pool:
        store = EndStore(pool)
        (letter,) = await store.take_letters(10)
        assert await store.take_letters(10) == []
        gate.conn.execute("UPDATE shardwheel.dead_letters SET offered_at = now() - interval '31 seconds'")
        assert await store.take_letters(10) == [letter]
        await store.letters_published([letter.dead_letter_id])
        gate.conn.execute("UPDATE shardwheel.dead_letters SET offered_at = NULL")
        assert await store.take_letters(10) == []
