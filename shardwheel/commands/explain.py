"""`shardctl explain`: why an execution or a job is as it is, and what to do about it."""

from __future__ import annotations

from typing import Annotated, Any

import trio
import typer

from shardwheel.commands.connection import TENANT
from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.edges import open_etcd, open_kafka, open_pool
from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.explaining import shown_explanation
from shardwheel.explanation import Facts
from shardwheel.ids import id_of
from shardwheel.job import Priority
from shardwheel.lag import lag_of
from shardwheel.output import Format, FormatOption, print_thing
from shardwheel.records import owner_key
from shardwheel.settings import Settings
from shardwheel.store.explain import read_facts
from shardwheel.topics import job_topic, workers_group

# The table is for people: the facts behind it are in the JSON.
COLUMNS = ("id", "kind", "state", "reason", "sentence", "remedy")
LATEST_COLUMNS = ("id", "state", "reason", "sentence", "remedy")


def explain(
    some_id: Annotated[str, typer.Argument(metavar="EXECUTION|JOB", help="The id of an execution or a job.")],
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Say why an execution or a job is late, held, skipped, not fired or given up, and what to do.

    Examples:

        shardctl explain 019a95b2-7000-0007-8a3c-0b8f6a0f5c11

        shardctl explain $JOB -o json
    """
    settings = current_settings(data)
    require(settings, "postgres_dsn")
    facts = trio.run(_gathered, settings, id_of(some_id))
    shown = shown_explanation(facts)
    print_thing(for_people(shown) if output is Format.table else shown, output)


def for_people(shown: dict[str, Any]) -> dict[str, Any]:
    """Without the facts; of a job, with what is to be said of its latest execution."""
    latest = shown["facts"].get("latest_execution")
    lines = {name: shown[name] for name in COLUMNS}
    return lines if latest is None else lines | {f"latest {name}": latest[name] for name in LATEST_COLUMNS}


async def _gathered(settings: Settings, some_id: bytes) -> Facts:
    async with open_pool(settings, "shardctl", 1) as pool:
        facts = await pool.run(read_facts, TENANT, some_id)
    return await _with_lag(settings, await _with_owner(settings, facts))


async def _with_owner(settings: Settings, facts: Facts) -> Facts:
    """Who owns the partition; without etcd the answer is vaguer, and still an answer."""
    if not settings.etcd_endpoints:
        return facts
    key = owner_key(facts.job.partition)
    try:
        async with open_etcd(settings) as leases:
            found = [item for item in (await leases.range(key)).items if item.key == key]
    except UnavailableError:
        return facts
    owner = found[0].value.decode(errors="replace") if found else None
    return facts.owned_by(owner)


async def _with_lag(settings: Settings, facts: Facts) -> Facts:
    """How much waits in Kafka before it, if it waits there."""
    if not settings.kafka_bootstrap or not facts.is_published:
        return facts
    topics = [job_topic(facts.job.pool, priority) for priority in Priority]
    try:
        lag = await lag_of(open_kafka(settings), workers_group(facts.job.pool), topics)
    except (UnavailableError, NotFoundError):
        return facts
    return facts._replace(pool_lag=lag)
