"""The outbox of callbacks on real PostgreSQL: every end that somebody wants to hear of, once; taken by one,
and by the next one should the first die; one receiver's flood does not hold up another's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from shardwheel.execution import Claimed
from shardwheel.ids import text_of
from shardwheel.store.callbacks import callback_delivered, callback_failed, take_callbacks
from shardwheel.store.executions import get_execution
from shardwheel.store.requests import cancel_execution
from shardwheel.wire import Fire, FireKind, Outcome
from tests.integration.store.gate import NOON_MS, Gate, result_of

pytestmark = pytest.mark.servers
URL = "https://Example.com:8443/done?x=1"


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    rig.update(rig.job_id, callback_url=URL)
    yield rig
    rig.close()


def claimed(gate: Gate, at_ms: int = NOON_MS, *, job_id: bytes | None = None) -> Claimed:
    (run,) = gate.claim(gate.fire(at_ms, job_id=job_id)).claimed
    return run


def states(gate: Gate, run: Claimed | Fire) -> list[str]:
    return [callback["state"] for callback in get_execution(gate.conn, "t", run.execution_id)["callbacks"]]


def test_an_end_is_told_as_it_was_and_once(gate: Gate) -> None:
    run = claimed(gate)
    assert states(gate, run) == []
    result = result_of(run, output=b'{"sent": 3}')
    gate.settle(result)
    gate.settle(result)
    (callback,) = take_callbacks(gate.conn, 10, [])
    assert (callback.url, callback.host, callback.tries) == (URL, "example.com:8443", 1)
    body = msgspec.json.decode(callback.body)
    assert (body["id"], body["version"], body["event"]) == (
        text_of(callback.callback_id),
        1,
        "execution.ended",
    )
    told = body["execution"]
    assert (told["id"], told["state"], told["task"]) == (text_of(run.execution_id), "succeeded", "work")
    assert (told["scheduled_at"], told["output"], told["duration_ms"]) == (
        "2026-11-18T12:00:00.000Z",
        {"sent": 3},
        40,
    )


def test_a_retry_is_no_end_and_giving_up_is_one(gate: Gate) -> None:
    run = claimed(gate)
    gate.settle(result_of(run, Outcome.FAILED))
    assert states(gate, run) == []
    (again,) = gate.claim(gate.fire(attempt=2, schedule_no=0)).claimed
    gate.settle(result_of(again, Outcome.FATAL))
    assert states(gate, run) == ["open"]


def test_what_is_cancelled_before_it_was_claimed_is_told_too(gate: Gate) -> None:
    fire = gate.waiting(NOON_MS)
    with gate.conn.transaction():
        gate.conn.execute(
            "SELECT set_config('role', 'shardwheel_api', true), set_config('shardwheel.tenant', 't', true)"
        )
        assert cancel_execution(gate.conn, "t", fire.execution_id) == "cancelled"
    assert states(gate, fire) == ["open"]


def test_a_skip_that_is_inserted_is_an_end(gate: Gate) -> None:
    gate.claim(gate.fire(kind=FireKind.SKIP, reason="misfire"))
    assert states(gate, gate.fire()) == ["open"]


def test_nobody_is_told_of_a_job_without_a_callback(gate: Gate) -> None:
    early = claimed(gate)
    gate.update(gate.job_id, callback_url=None)
    late = claimed(gate, NOON_MS + 1)
    gate.settle(result_of(early), result_of(late))
    assert states(gate, early) == states(gate, late) == []


def test_what_is_taken_comes_again_only_when_its_time_has_come(gate: Gate) -> None:
    run = claimed(gate)
    gate.settle(result_of(run))
    (first,) = take_callbacks(gate.conn, 10, [])
    assert take_callbacks(gate.conn, 10, []) == []
    gate.conn.execute("UPDATE shardwheel.callbacks SET due_at = now()")  # The first taker died.
    (second,) = take_callbacks(gate.conn, 10, [])
    assert (second.callback_id, second.tries) == (first.callback_id, 2)
    callback_failed(gate.conn, first, "overtaken", None)
    assert states(gate, run) == ["open"]
    callback_failed(gate.conn, second, "answered 500", timedelta(0))
    (third,) = take_callbacks(gate.conn, 10, [])
    callback_delivered(gate.conn, first)  # Late, but it was delivered.
    assert states(gate, run) == ["delivered"]
    callback_failed(gate.conn, third, "answered 500", timedelta(0))
    assert states(gate, run) == ["delivered"]


def test_one_that_is_given_up_says_why(gate: Gate) -> None:
    run = claimed(gate)
    gate.settle(result_of(run))
    (callback,) = take_callbacks(gate.conn, 10, [])
    callback_failed(gate.conn, callback, "answered 410", None)
    (shown,) = get_execution(gate.conn, "t", run.execution_id)["callbacks"]
    assert (shown["state"], shown["problem"], shown["tries"], shown["next_try_at"]) == (
        "given_up",
        "answered 410",
        1,
        None,
    )
    assert take_callbacks(gate.conn, 10, []) == []


def test_a_flood_for_one_receiver_leaves_room_for_the_others(gate: Gate) -> None:
    other = gate.add_job(callback_url="https://other.example/")
    runs = [claimed(gate, NOON_MS + n) for n in range(20)]
    gate.settle(*(result_of(run) for run in runs))
    gate.settle(result_of(claimed(gate, job_id=other)))
    assert sorted(callback.host for callback in take_callbacks(gate.conn, 64, [])) == [
        *["example.com:8443"] * 4,
        "other.example",
    ]
    assert take_callbacks(gate.conn, 64, ["example.com:8443"]) == []
    assert len(take_callbacks(gate.conn, 3, [])) == 3
