"""`shardctl doctor`: is everything within reach and as it should be? What is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import psycopg
import trio
import typer

from shardwheel.clock import DatabaseClock
from shardwheel.commands.context import DataOption, current_settings
from shardwheel.commands.edges import open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.errors import NotFoundError, ShardwheelError
from shardwheel.kafka import Kafka
from shardwheel.output import Format, FormatOption, print_rows
from shardwheel.ports import TopicSpec
from shardwheel.settings import Settings
from shardwheel.store.migrate import schema_state
from shardwheel.store.postgres import PostgresStore
from shardwheel.store.rebase import count_foreign
from shardwheel.topics import job_topics, result_topics
from shardwheel.workers.isolated import network_obstacle

app = typer.Typer(add_completion=False)

LIMIT_S = 20.0


class Finding(NamedTuple):
    """One thing that was looked at. `remedy` is empty when it is as it should be."""

    check: str
    state: str
    remedy: str = ""


@app.command()
def doctor(data: DataOption = None, output: FormatOption = Format.table) -> None:
    """Look at every server and at the API. Says what is wrong and what to do; exit code 1 if anything is.

    Example:

        shardctl doctor -o json
    """
    settings = current_settings(data)
    findings = [*trio.run(examine, settings), isolation(settings)]
    rows = [finding._asdict() | {"ok": not finding.remedy} for finding in findings]
    print_rows(rows, ["check", "ok", "state", "remedy"], output)
    if any(finding.remedy for finding in findings):
        raise typer.Exit(1)


async def examine(settings: Settings) -> list[Finding]:
    """Every check by itself: one that fails does not hide the others."""
    checks: list[tuple[str, str, Callable[[Settings], Awaitable[list[Finding]]]]] = [
        ("postgres", "postgres_dsn", _postgres),
        ("etcd", "etcd_endpoints", _etcd),
        ("kafka", "kafka_bootstrap", _kafka),
    ]
    findings: list[Finding] = []
    for name, setting, check in checks:
        if not getattr(settings, setting):
            remedy = f"start `shardctl dev` or set SHARDWHEEL_{setting.upper()}"
            findings.append(Finding(name, "not configured", remedy))
            continue
        try:
            with trio.fail_after(LIMIT_S):
                findings += await check(settings)
        except (ShardwheelError, psycopg.Error, trio.TooSlowError) as error:
            remedy = f"is it up, and is SHARDWHEEL_{setting.upper()} right? See `shardctl dev status`"
            findings.append(Finding(name, f"out of reach: {error}", remedy))
    return findings


def isolation(settings: Settings) -> Finding:
    """What this machine grants to isolated handlers. That it grants less is nothing to mend."""
    obstacle = network_obstacle(settings.isolated_user)
    if obstacle:
        return Finding("isolation", f"isolated handlers share this machine's network ({obstacle})")
    return Finding("isolation", "isolated handlers have a network of their own, which leads nowhere")


async def _postgres(settings: Settings) -> list[Finding]:
    async with open_pool(settings, "doctor", 1) as pool:
        store = PostgresStore(pool)
        identity = await store.identity()
        findings = [Finding("postgres", f"in reach, timeline {identity.timeline}")]
        state = await pool.run(schema_state)
        if state.changed:
            names = ", ".join(step.name for step in state.changed)
            findings.append(
                Finding("schema", f"applied files were edited: {names}", "put the files back as they were")
            )
        elif state.pending:
            findings.append(
                Finding("schema", f"{len(state.pending)} migrations are missing", "run `shardctl migrate`")
            )
        else:
            findings.append(Finding("schema", f"{len(state.applied)} migrations applied"))
        if not state.pending and (foreign := await pool.run(count_foreign)):
            found = f"{foreign} partitions are from another PostgreSQL: no shard takes them"
            findings.append(Finding("restore", found, "run `shardctl rebase`"))
        clock = DatabaseClock(trio.current_time)
        await clock.run_once(store)
        findings.append(Finding("clock", f"the database's clock is known to ± {clock.uncertainty_ms:.1f} ms"))
        return findings


async def _etcd(settings: Settings) -> list[Finding]:
    async with open_etcd(settings) as leases:
        version = await leases.version()
        shards = (await leases.range("shards/")).items
        return [Finding("etcd", f"in reach, version {version}, {len(shards)} shards are members")]


async def _kafka(settings: Settings) -> list[Finding]:
    findings = []
    n = settings.topic_partitions
    for name, bus, specs in (
        ("kafka", open_kafka(settings), job_topics(n)),
        ("results", open_results_kafka(settings), result_topics(n)),
    ):
        findings.append(await _topics(name, bus, specs))
    return findings


async def _topics(name: str, bus: Kafka, specs: list[TopicSpec]) -> Finding:
    topics = [spec.name for spec in specs]
    try:
        await bus.end_offsets(topics)
    except NotFoundError as error:
        return Finding(name, f"in reach, but {error}", "start a shard: it makes the topics it needs")
    return Finding(name, f"in reach, {len(topics)} topics")
