"""`shardctl doctor`: is everything within reach and as it should be? What is wrong, and what to do."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import psycopg
import trio
import typer

from shardwheel.clock import DatabaseClock
from shardwheel.commands.context import current_settings
from shardwheel.commands.doctor_api import of_api
from shardwheel.commands.edges import open_etcd, open_kafka, open_pool, open_results_kafka
from shardwheel.commands.findings import Finding, of_clock
from shardwheel.commands.reach import look_for_api
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.errors import NotFoundError, ShardwheelError
from shardwheel.kafka import Kafka
from shardwheel.ports import TopicSpec
from shardwheel.settings import Settings
from shardwheel.store.migrate import schema_state
from shardwheel.store.postgres import PostgresStore
from shardwheel.store.rebase import count_foreign
from shardwheel.topics import job_topics, result_topics
from shardwheel.workers.isolated import network_obstacle

app = typer.Typer(add_completion=False)

LIMIT_S = 20.0


@verb(app)
def doctor(at: Terminal) -> None:
    """Look at every server and at the API. Says what is wrong and what to do; exit code 1 if anything is.

    PostgreSQL, its schema and clock; etcd; Kafka and its topics; the API, its clock, and whether it believes
    your token; what this machine grants to isolated handlers.

    Examples:

        shardctl doctor

        shardctl doctor --profile staging -o json
    """
    settings = current_settings(at.said.data)
    findings = [*trio.run(examine, settings), *of_api(look_for_api(at.said)), isolation(settings)]
    rows = [finding._asdict() | {"ok": not finding.remedy} for finding in findings]
    at.rows(rows, ["check", "ok", "state", "remedy"])
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
        version = await pool.run(lambda conn: conn.info.server_version)
        here = f"in reach, version {version // 10_000}.{version % 10_000}, timeline {identity.timeline}"
        findings = [Finding("postgres", here)]
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
        off_s = clock.now_ms() / 1000 - time.time()
        return [*findings, of_clock("clock", "the database's", off_s, f"± {clock.uncertainty_ms:.1f} ms")]


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
