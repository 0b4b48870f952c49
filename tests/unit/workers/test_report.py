"""Reporting results: what is said when Kafka's data was lost between a result and its settling."""

from __future__ import annotations

import trio
from trio.testing import trio_test

from shardwheel.memory.bus import MemoryBus
from shardwheel.memory.kafka_server import MemoryKafka
from shardwheel.topics import RESULTS, result_topics
from shardwheel.wire import FORMAT_VERSION, Outcome, Result
from shardwheel.workers.report import Reporter

RESULT = Result(
    FORMAT_VERSION, bytes(16), bytes(16), 0, 1, bytes(16), Outcome.SUCCEEDED, 1_000, 2_000, "worker"
)


@trio_test
async def test_a_result_that_kafka_lost_is_said_again() -> None:
    server = MemoryKafka()
    server.create(result_topics(1))
    bus = MemoryBus(server)
    async with trio.open_nursery() as nursery:
        reporter = Reporter(bus, 1)
        nursery.start_soon(reporter.run)
        assert await reporter.unsettled(await bus.generation([RESULTS])) == []
        reporter.report(RESULT)
        await reporter.flush()
        assert list((await bus.end_offsets([RESULTS])).values()) == [1]
        server.wipe()
        server.create(result_topics(1))
        await reporter.unsettled(await bus.generation([RESULTS]))
        await reporter.flush()
        assert list((await bus.end_offsets([RESULTS])).values()) == [1]
        nursery.cancel_scope.cancel()
