"""What services expect to find on the servers: the schema in PostgreSQL, the topics in Kafka.

Both are idempotent, so a server that is slow to answer is simply asked again, for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
import trio

from shardwheel.compose.remedy import last_words
from shardwheel.errors import UnavailableError
from shardwheel.kafka import Kafka
from shardwheel.settings import Settings
from shardwheel.store.migrate import Migration, migrate
from shardwheel.topics import job_topics, result_topics

_Answer = TypeVar("_Answer")

PATIENCE_S = 30.0
PAUSE_S = 0.5
REQUEST_LIMIT_S = 30.0


async def furnish(settings: Settings, say: Callable[[str], None]) -> None:
    applied = await _patiently(make_schema, settings)
    say(f"schema: {len(applied)} migrations applied" if applied else "schema: up to date")
    topics = await _patiently(make_topics, settings)
    say(f"topics: all {topics} are there")


async def _patiently(ask: Callable[[Settings], Awaitable[_Answer]], settings: Settings) -> _Answer:
    """The answer, or after a while the last reason why there is none."""
    give_up_at_s = trio.current_time() + PATIENCE_S
    while True:
        try:
            return await ask(settings)
        except UnavailableError:
            if trio.current_time() >= give_up_at_s:
                raise
        await trio.sleep(PAUSE_S)


async def make_schema(settings: Settings) -> list[Migration]:
    return await trio.to_thread.run_sync(_migrate, settings.postgres_dsn)


def _migrate(dsn: str) -> list[Migration]:
    try:
        connection = psycopg.connect(dsn, connect_timeout=10, autocommit=True)
    except psycopg.OperationalError as error:
        raise UnavailableError(f"PostgreSQL is out of reach; {last_words(str(error))}") from error
    with connection:
        return migrate(connection)


async def make_topics(settings: Settings) -> int:
    """How many there are now. Results may live on another cluster than jobs."""
    jobs, results = job_topics(settings.topic_partitions), result_topics(settings.topic_partitions)
    await Kafka(settings.kafka_bootstrap, settings.kafka_settings, limit_s=REQUEST_LIMIT_S).ensure_topics(
        jobs
    )
    await Kafka(*settings.results_kafka, limit_s=REQUEST_LIMIT_S).ensure_topics(results)
    return len(jobs) + len(results)
