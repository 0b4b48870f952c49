"""Shards as real processes, jobs that show every pause, and what the topic says of them afterwards.

Each affected partition gets two jobs of every 100 ms, 50 ms apart. The broker writes down when it appended
each of their fires; a pause of a partition is then the time between two of them. Nothing here judges:
pauses.py does.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psycopg
import trio
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # They do not say what they export.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from shardwheel.bench.embedded import Servers
from shardwheel.bench.stored import TOPIC_PARTITIONS, entries_of, once_entries, store
from shardwheel.etcd import Etcd
from shardwheel.job import JobEntry
from shardwheel.kafka import Kafka
from shardwheel.partition import partition_of
from shardwheel.records import View, read_view
from shardwheel.schedule import schedule_of
from shardwheel.store.jobs import read_now_ms
from shardwheel.timing import Timing, parse_schedule
from shardwheel.topics import job_topic, job_topics
from shardwheel.wire import Fire, decode_fire

HELD: Final = 300_000
SHARDS: Final = 3
PACE_MS: Final = 50
CLUSTER: Final = "bench"
LIMIT_S: Final = 300.0
_HELD_RATE_PER_S: Final = 100.0
_TOPIC: Final = job_topic("short", 2)
_JOBS_A_PARTITION: Final = 2


async def prepare(servers: Servers, held: int, say: Callable[[str], None]) -> None:
    """The topics, stamped by the broker, and so many jobs of the mix."""
    await Kafka(servers.kafka).ensure_topics(job_topics(TOPIC_PARTITIONS))
    _stamp_by_broker(servers.kafka)
    say(f"storing {held:,} jobs")
    store(servers.dsn, entries_of(held, now_ms(servers), _HELD_RATE_PER_S))


def _stamp_by_broker(bootstrap: str) -> None:
    entry = ConfigEntry(
        "message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, _TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(LIMIT_S)


def now_ms(servers: Servers) -> int:
    with psycopg.connect(servers.dsn) as connection:
        return read_now_ms(connection)


# --- Processes ----------------------------------------------------------------------------------------


@contextmanager
def shard_processes(servers: Servers, count: int, **more: str) -> Iterator[None]:
    """So many shards, ended whatever happens. `more`: further settings, in capitals."""
    environment = {name: value for name, value in os.environ.items() if "SHARDWHEEL" not in name} | {
        "SHARDWHEEL_POSTGRES_DSN": servers.dsn,
        "SHARDWHEEL_ETCD_ENDPOINTS": servers.etcd,
        "SHARDWHEEL_KAFKA_BOOTSTRAP": servers.kafka,
        "SHARDWHEEL_CLUSTER": CLUSTER,
        **{f"SHARDWHEEL_{name}": value for name, value in more.items()},
    }
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="shardwheel-bench-") as folder:
        try:
            for number in range(count):
                with (Path(folder) / f"shard-{number}.log").open("wb") as log:
                    command = [sys.executable, "-m", "shardwheel.cli", "shard"]
                    processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            yield
        finally:
            for process in processes:
                process.kill()
                process.wait()


def pid_of(shard_id: str) -> int:
    """A shard's name holds its process's number: host-pid-random."""
    return int(shard_id.split("-")[-2])


async def look(servers: Servers) -> View:
    async with Etcd((servers.etcd,), cluster=CLUSTER) as leases:
        return read_view(await leases.range(""))


async def until(servers: Servers, done: Callable[[View], bool], what: str) -> View:
    with trio.move_on_after(LIMIT_S):
        async with Etcd((servers.etcd,), cluster=CLUSTER) as leases:
            while True:
                view = read_view(await leases.range(""))
                if done(view):
                    return view
                await trio.sleep(0.1)
    raise RuntimeError(f"{what}: not within {LIMIT_S:g} s")


def is_settled(view: View, count: int) -> bool:
    """All shards are planned with, and each owns what is planned for it."""
    owners = {partition: holder.shard_id for partition, holder in view.owners.items()}
    planned = {partition: seat.owner for partition, seat in enumerate(view.seats)}
    return len(view.members) == len(set(planned.values())) == count and owners == planned


async def until_mirrored(servers: Servers) -> None:
    """Every planned standby holds what it mirrors."""

    def mirrored(view: View) -> bool:
        planned = {(p, seat.standby) for p, seat in enumerate(view.seats) if seat.standby}
        return planned <= {(p, name) for name in view.members for p in _mirrored_by(view, name)}

    await until(servers, mirrored, "loading the standbys")


def _mirrored_by(view: View, shard_id: str) -> list[int]:
    try:
        status = httpx.get(f"http://{view.members[shard_id].address}/status", timeout=10, trust_env=False)
    except httpx.HTTPError:
        return []
    partitions: dict[str, Any] = status.json()["partitions"]
    return [int(number) for number, one in partitions.items() if one["role"] == "standby"]


# --- Jobs that show every pause -----------------------------------------------------------------------


def paced_entries(partitions: Sequence[int], start_ms: int) -> list[JobEntry]:
    """For each partition something that is due each 50 ms, all partitions spread over that time."""
    dice = random.Random(5)
    every_ms = PACE_MS * _JOBS_A_PARTITION
    text = parse_schedule(now_ms=0, every=f"{every_ms}ms", time_zone="UTC").schedule.text
    (template,) = once_entries([start_ms])
    entries = []
    for place, partition in enumerate(partitions):
        for turn in range(_JOBS_A_PARTITION):
            at_ms = start_ms + PACE_MS * turn + place * PACE_MS // len(partitions)
            entries.append(
                template._replace(
                    job_id=_id_in(partition, dice),
                    partition=partition,
                    schedule=text,
                    anchor_ms=at_ms,
                    start_ms=at_ms,
                    last_ms=None,
                    schedule_no=dice.getrandbits(63) | 1,
                )
            )
    return entries


def _id_in(partition: int, dice: random.Random) -> bytes:
    while True:
        job_id = dice.randbytes(16)
        if partition_of(job_id) == partition:
            return job_id


def dues_of(entries: Iterable[JobEntry], through_ms: int) -> dict[bytes, list[int]]:
    """By job the times it is due, computed by the schedule alone."""
    return {
        entry.job_id: list(
            Timing(schedule_of(entry.schedule), entry.anchor_ms, entry.start_ms, entry.last_ms).times_between(
                entry.anchor_ms - 1, through_ms
            )
        )
        for entry in entries
    }


async def until_fired(servers: Servers, partitions: Sequence[int], through_ms: int) -> None:
    """Until the stored watermarks say that everything up to then was published."""
    give_up_s = time.monotonic() + LIMIT_S
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        while True:
            ((lowest_ms,),) = connection.execute(
                "SELECT min(fired_through_ms) FROM shardwheel.partitions WHERE partition = ANY(%s)",
                [list(partitions)],
            )
            if lowest_ms >= through_ms:
                return
            if time.monotonic() > give_up_s:
                raise RuntimeError("some partitions are fired by nobody")
            await trio.sleep(0.1)


class Published(NamedTuple):
    """One message of a paced job, and when the broker appended it."""

    fire: Fire
    at_ms: int


def read_back(servers: Servers, jobs: Iterable[bytes]) -> list[Published]:
    """All that the topic holds of these jobs."""
    wanted = frozenset(jobs)
    consumer = Consumer(
        {
            "bootstrap.servers": servers.kafka,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(_TOPIC, number, 0) for number in range(TOPIC_PARTITIONS)])
    found: list[Published] = []
    ended: set[int] = set()
    try:
        while len(ended) < TOPIC_PARTITIONS:
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
                elif error is not None:
                    raise KafkaException(error)
                elif message.key() in wanted:
                    found.append(Published(decode_fire(message.value() or b""), message.timestamp()[1]))
    finally:
        consumer.close()
    return found
