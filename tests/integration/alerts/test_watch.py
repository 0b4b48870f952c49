"""The watcher: told once, again after a failure, over when it is over, and nothing twice after a restart."""

from __future__ import annotations

import re

import psycopg
import pytest
import trio
from trio.testing import trio_test

from shardwheel.alerts.rules import Figure, rules
from shardwheel.alerts.watch import STANDS_BY
from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.limits import WorkerCard
from shardwheel.metrics import DUPLICATES, FIRES
from shardwheel.service import Service
from shardwheel.store.alerts import DELIVERIES_AT_ONCE, list_alerts, silence_alert
from shardwheel.store.sql import sql
from shardwheel.store.workers import announce_worker
from tests.integration.alerts.rig import Scene, scene

pytestmark = pytest.mark.servers


def told(s: Scene) -> list[tuple[str, str, str]]:
    return [(body["event"], body["rule"], body["severity"]) for body in s.generic.heard]


def paged(s: Scene) -> list[tuple[str, str]]:
    return [(body["event_action"], body["payload"]["severity"]) for body in s.pagerduty.heard]


@trio_test
async def test_an_alert_is_told_once_worse_once_more_and_over_at_the_end(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        watch = s.watcher("a")
        await s.look(watch)
        assert told(s) == []
        s.bury(101)
        await s.look(watch, 3)
        assert told(s) == [("trigger", "dead_letters", "warning")]
        s.bury(399)
        await s.look(watch, 3)
        s.dig_up()
        await s.look(watch, 4)
        assert told(s) == [
            ("trigger", "dead_letters", "warning"),
            ("trigger", "dead_letters", "critical"),
            ("resolve", "dead_letters", "critical"),
        ]
        assert paged(s) == [("trigger", "warning"), ("trigger", "critical"), ("resolve", "critical")]
        assert len({body["dedup_key"] for body in s.generic.heard + s.pagerduty.heard}) == 1
        assert {body["routing_key"] for body in s.pagerduty.heard} == {"routing"}
        (alert,) = list_alerts(s.conn, is_open=False)
        assert alert.notified_ms and alert.resolved_ms and alert.resolved_ms >= alert.opened_ms
        assert list_alerts(s.conn) == []


@trio_test
async def test_a_restart_repeats_nothing_and_resolves_what_the_one_before_told(
    migrated_database: str,
) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        await s.look(s.watcher("a"))
        s.end_lease()
        after = s.watcher("b")
        await s.look(after, 5)
        assert len(told(s)) == len(paged(s)) == 1
        s.dig_up()
        await s.look(after, 3)
        assert [event for event, _, _ in told(s)] == ["trigger", "resolve"]


@trio_test
async def test_one_that_dies_before_it_tells_is_made_good_by_the_next(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        await s.watcher("a").look()
        assert told(s) == []
        s.end_lease()
        await s.look(s.watcher("b"), 2)
        assert len(told(s)) == len(paged(s)) == 1


@trio_test
async def test_one_that_dies_while_it_tells_tells_it_again_under_the_same_key(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        before = s.watcher("a")
        await before.look()
        with trio.CancelScope() as s.generic.on_hearing:
            await before.deliver()
        s.generic.on_hearing = None
        s.end_lease()
        after = s.watcher("b")
        await s.look(after, 3)
        assert len(told(s)) == 1
        s.hasten()
        await s.look(after, 3)
        assert len(told(s)) == 2
        assert len({body["dedup_key"] for body in s.generic.heard}) == 1


@trio_test
async def test_one_that_can_not_be_put_on_record_as_told_is_told_again(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        watch = s.watcher("a")
        await watch.look()
        s.store.away = True
        await watch.deliver()
        s.store.away = False
        s.hasten()
        await s.look(watch, 3)
        assert len(told(s)) == len(paged(s)) == 2
        assert len({body["dedup_key"] for body in s.generic.heard}) == 1


@trio_test
async def test_of_two_at_once_one_watches_and_the_other_takes_over(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        first, second = s.watcher("a"), s.watcher("b")
        for _ in range(3):
            await s.look(first)
            await s.look(second)
        assert (first.watches, second.watches) == (True, False)
        assert (await first.look(), await second.look()) == (None, STANDS_BY)
        assert len(told(s)) == len(paged(s)) == 1
        s.end_lease()
        await s.look(second)
        s.dig_up()
        for _ in range(4):
            await s.look(first)
            await s.look(second)
        assert (first.watches, second.watches) == (False, True)
        assert [event for event, _, _ in told(s)] == ["trigger", "resolve"]


@trio_test
async def test_what_an_overtaken_one_found_is_not_put_on_record(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        first = s.watcher("a")
        await s.look(first)
        s.end_lease()
        await s.look(s.watcher("b"))
        found = rules()["dead_letters"].finding(Figure("dead_letters", 200))
        assert not await s.store.store_look("a", [found], [])
        assert list_alerts(s.conn) == []
        # Its lease may be over: what counts is that nobody else has taken the watch.
        s.end_lease()
        assert await s.store.store_look("b", [found], [])
        await first.deliver()
        assert told(s) == []


@trio_test
async def test_a_receiver_that_fails_is_tried_again_and_the_other_is_not_told_twice(
    migrated_database: str,
) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        watch = s.watcher("a")
        s.generic.status = 500
        await s.look(watch, 3)
        assert (len(told(s)), len(paged(s))) == (1, 1)
        errors = s.conn.execute("SELECT tries, error FROM shardwheel.alert_deliveries WHERE told IS NULL")
        assert errors.fetchall() == [(1, "answered 500: {}")]
        s.hasten()
        await s.look(watch)
        pauses = s.conn.execute(
            "SELECT round(extract(epoch FROM next_try_at - now()) / 15) FROM shardwheel.alert_deliveries"
            " WHERE told IS NULL"
        )
        assert pauses.fetchall() == [(2,)]
        s.generic.status = 200
        s.hasten()
        await s.look(watch, 3)
        assert (len(told(s)), len(paged(s))) == (3, 1)


@trio_test
async def test_silenced_it_is_listed_and_not_told_until_the_silence_ends(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        watch = s.watcher("a")
        await watch.look()
        (alert,) = list_alerts(s.conn)
        silence_alert(s.conn, alert.alert_id, 3_600_000, "somebody")
        await s.look(watch, 3)
        assert told(s) == [] and len(list_alerts(s.conn)) == 1
        # It ends and comes again: another alert, as silent.
        s.dig_up()
        await s.look(watch, 3)
        s.bury(200)
        await s.look(watch, 3)
        (again,) = list_alerts(s.conn)
        assert told(s) == [] and again.alert_id != alert.alert_id
        silence_alert(s.conn, again.alert_id, 0, "somebody")
        await s.look(watch)
        assert told(s) == [("trigger", "dead_letters", "warning")]
        with pytest.raises(NotFoundError, match="no alert"):
            silence_alert(s.conn, bytes(16), 0, "somebody")


@trio_test
async def test_one_that_was_told_and_silenced_is_told_as_over(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        watch = s.watcher("a")
        await s.look(watch)
        silence_alert(s.conn, list_alerts(s.conn)[0].alert_id, 3_600_000, "somebody")
        s.dig_up()
        await s.look(watch, 3)
        assert [event for event, _, _ in told(s)] == ["trigger", "resolve"]


@trio_test
async def test_a_shard_that_vanishes_is_missed_across_a_restart_until_another_comes(
    migrated_database: str,
) -> None:
    async with scene(migrated_database) as s:
        await s.join("one")
        await s.join("two")
        watch = s.watcher("a")
        await s.look(watch)
        await s.vanish("two")
        s.later_s = 6.0
        await s.look(watch)
        assert told(s) == [("trigger", "shard_heartbeat", "warning")]
        assert s.generic.heard[0]["subject"] == "two"
        s.end_lease()
        after = s.watcher("b")
        await s.look(after, 4)
        assert len(told(s)) == 1
        await s.join("three")
        await s.look(after, 3)
        assert [event for event, _, _ in told(s)] == ["trigger", "resolve"]


@trio_test
async def test_doors_and_lags_are_looked_at(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        door = Service("shard")
        await door.open()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.run)
            await s.join("one", door.address)
            await s.join("two", "127.0.0.1:1")
            watch = s.watcher("a")
            await s.report(6_000)
            await s.look(watch, 2)
            door.stop()
        assert told(s) == [("trigger", "results_lag", "warning")]
        # Kafka away: what is open stays open, and nothing is taken for calm.
        s.kafka.away = True
        await s.look(watch, 4)
        assert [alert.rule for alert in list_alerts(s.conn)] == ["results_lag"]
        # It stays away, and the doors stay shut, though their shards are alive: that is something of its own.
        s.later_s = 31.0
        await s.look(watch)
        found = {(alert.rule, alert.subject) for alert in list_alerts(s.conn)}
        assert found - {("results_lag", "")} == {
            ("shard_door", "one"),
            ("shard_door", "two"),
            ("unreachable", "Kafka"),
            ("unreachable", "the results' Kafka"),
        }
        s.kafka.away = False
        await s.look(watch, 3)
        assert {alert.rule for alert in list_alerts(s.conn)} == {"results_lag", "shard_door"}


@trio_test
async def test_duplicates_are_those_of_the_workers_that_the_table_names(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        door = Service("everybody")
        await door.open()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.run)
            announce_worker(s.conn, WorkerCard("w", "short", (), 1, door.address))
            await s.join("one")
            watch = s.watcher("a")
            await s.look(watch)
            for _ in range(3):
                FIRES.inc(1_000)
                DUPLICATES.labels("claim").inc(20)
                assert told(s) == []
                await s.look(watch)
            door.stop()
        assert told(s) == [("trigger", "duplicates", "warning")]
        assert "2.0%" in s.generic.heard[0]["sentence"]


@trio_test
async def test_the_api_may_list_and_silence_and_no_more(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        await s.watcher("a").look()
    with psycopg.connect(migrated_database) as conn:
        conn.execute("SET LOCAL ROLE shardwheel_api")
        (alert,) = list_alerts(conn)
        assert silence_alert(conn, alert.alert_id, 60_000, "somebody").silenced_until_ms
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("UPDATE shardwheel.alerts SET resolved_at = now()")


@trio_test
async def test_alerts_come_in_pages_the_newest_first(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        table = rules()
        for name in ("dead_letters", "results_lag", "duplicates"):
            await s.store.take_watch("a", 60)
            await s.store.store_look("a", [table[name].finding(Figure(name, 1e6))], [])
        first = list_alerts(s.conn, is_open=None, limit=2)
        rest = list_alerts(s.conn, is_open=None, before=(first[-1].opened_ms, first[-1].alert_id))
        found = [(alert.opened_ms, alert.alert_id) for alert in first + rest]
        assert (len(first), len(rest)) == (2, 1)
        assert found == sorted(set(found), reverse=True)


@trio_test
async def test_what_was_over_long_ago_is_forgotten(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        s.bury(200)
        watch = s.watcher("a")
        await s.look(watch)
        s.conn.execute("UPDATE shardwheel.alerts SET resolved_at = now() - interval '89 days'")
        assert await s.store.forget() == 0
        s.conn.execute("UPDATE shardwheel.alerts SET resolved_at = now() - interval '91 days'")
        assert await s.store.forget() == 1
        assert s.conn.execute("SELECT count(*) FROM shardwheel.alert_deliveries").fetchone() == (0,)


@trio_test
async def test_postgresql_out_of_reach_is_told_from_memory(migrated_database: str) -> None:
    async with scene(migrated_database) as s:
        watch = s.watcher("a")
        await s.look(watch)
        s.store.away = True
        for s.later_s in (10.0, 31.0, 41.0):
            with pytest.raises(UnavailableError):
                await watch.look()
        s.store.away = False
        await watch.look()
        assert [(b["event"], b["rule"], b["subject"]) for b in s.generic.heard] == [
            ("trigger", "unreachable", "PostgreSQL"),
            ("resolve", "unreachable", "PostgreSQL"),
        ]


def test_what_is_to_be_told_is_found_without_a_look_at_all_that_is_over(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute(
            """INSERT INTO shardwheel.alerts (rule, severity, value, sentence, remedy, resolved_at)
               SELECT 'dead_letters', 'warning', 1, '', '', now() - n * interval '5 minutes'
                 FROM generate_series(1, 20000) AS n"""
        )
        conn.execute("ANALYZE shardwheel.alerts")
        given = {"receivers": ["a", "b"], "most": DELIVERIES_AT_ONCE}
        plan = "\n".join(row[0] for row in conn.execute(b"EXPLAIN " + sql("begin_deliveries"), given))
    assert "alerts_open" in plan
    assert "alerts_age" in plan
    assert "Seq Scan on alerts" not in plan


def test_the_runbooks_statement_finds_who_holds_the_horizon_back(migrated_database: str) -> None:
    (statement,) = re.findall("`(SELECT .*?)`", rules()["horizon_age"].remedy)
    looking = psycopg.connect(migrated_database, autocommit=True)
    with psycopg.connect(migrated_database) as holder, looking as looker:
        assert holder.info.backend_pid not in [row[0] for row in looker.execute(statement.encode())]
        holder.execute("SELECT pg_current_xact_id()")
        assert holder.info.backend_pid in [row[0] for row in looker.execute(statement.encode())]
