"""Dead letters on real PostgreSQL: all that is needed is in them; redrive and discard are idempotent, on
record, and never another tenant's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Json

from shardwheel.errors import ConflictError, NotFoundError, UsageError
from shardwheel.ids import REDRIVE, execution_id, id_of, scheduled_ms_of
from shardwheel.store.arrays import Uuid
from shardwheel.store.audit import Actor, AuditFilter, list_audit
from shardwheel.store.executions import ExecutionFilter, get_execution, list_executions
from shardwheel.store.letter_requests import discard_letter, discard_some, redrive_letter, redrive_some
from shardwheel.store.letters import LetterFilter, count_letters, get_letter, list_letters
from shardwheel.wire import FireKind, Outcome
from tests.integration.store.blocking import LIMIT_S, blocked
from tests.integration.store.gate import NOON_MS, Gate, result_of

pytestmark = pytest.mark.servers
ANNA = Actor("anna", "operator")
OPEN = LetterFilter()


@pytest.fixture
def gate(migrated_database: str) -> Iterator[Gate]:
    rig = Gate(migrated_database)
    yield rig
    rig.close()


def bury(gate: Gate, at_ms: int = NOON_MS, *, job_id: bytes | None = None, **result: Any) -> bytes:
    """Let an execution fail for good; the dead letter's id."""
    (claimed,) = gate.claim(gate.fire(at_ms, job_id=job_id)).claimed
    fields = {"error_class": "ValueError", "message": "no", "traceback": "line 1"} | result
    assert gate.settle(result_of(claimed, Outcome.FATAL, **fields)) == {"dead": 1}
    ((letter_id,),) = gate.conn.execute(
        "SELECT uuid_send(dead_letter_id) FROM shardwheel.dead_letters WHERE execution_id = %s",
        [Uuid(claimed.execution_id)],
    )
    return bytes(letter_id)


def audited(gate: Gate) -> list[tuple[str, str, str]]:
    entries = list_audit(gate.conn, "t").items
    return [(entry["actor"], entry["action"], entry["object_id"]) for entry in reversed(entries)]


def test_a_letter_carries_all_that_is_needed_to_understand_and_replay_it(gate: Gate) -> None:
    gate.update(gate.job_id, params=Json({"n": 1}), max_retries=1, tags=["billing"])
    (claimed,) = gate.claim(gate.fire()).claimed
    gate.conn.execute(
        """UPDATE shardwheel.executions SET checkpoint = '{"page": 3}', progress = '{"pct": 40}',
                  trace = '00-ab-cd-01' WHERE execution_id = %s""",
        [Uuid(claimed.execution_id)],
    )
    first = result_of(
        claimed, Outcome.FAILED, error_class="OSError", message="away", traceback="t1", worker="w1"
    )
    gate.settle(first)
    (again,) = gate.claim(gate.fire(attempt=2, schedule_no=0)).claimed
    gate.settle(
        result_of(again, Outcome.FAILED, error_class="ValueError", message="no", traceback="t2", worker="w2")
    )
    gate.update(gate.job_id, name="renamed since", params=Json({"n": 2}))

    (listed,) = list_letters(gate.conn, "t").items
    letter = get_letter(gate.conn, "t", id_of(listed["id"]))
    assert listed.items() <= letter.items()
    assert (letter["reason"], letter["class"], letter["message"], letter["traceback"], letter["worker"]) == (
        ("retries_exhausted", "ValueError", "no", "t2", "w2")
    )
    assert (letter["params"], letter["job"]["name"], letter["job"]["tags"]) == ({"n": 1}, "", ["billing"])
    assert (letter["checkpoint"], letter["progress"], letter["trace"]) == (
        {"page": 3},
        {"pct": 40},
        "00-ab-cd-01",
    )
    told = [
        (a["attempt"], a["outcome"], a["class"], a["message"], a["traceback"], a["worker"])
        for a in letter["attempts"]
    ]
    assert told == [
        (1, "failed", "OSError", "away", "t1", "w1"),
        (2, "failed", "ValueError", "no", "t2", "w2"),
    ]
    assert letter["attempts"][0]["started_at"] == "2026-11-18T12:00:00.000Z"
    assert letter["attempts"][0]["ended_at"] == "2026-11-18T12:00:00.040Z"


def test_a_redrive_makes_one_execution_and_says_who_asked(gate: Gate) -> None:
    letter_id = bury(gate)
    with gate.conn.transaction():
        execution = redrive_letter(gate.conn, "t", letter_id, ANNA)
    assert redrive_letter(gate.conn, "t", letter_id, Actor("bert")) == execution
    at_ms = scheduled_ms_of(execution)
    assert execution == execution_id(REDRIVE, gate.job_id, 7, at_ms, letter_id)
    made = get_execution(gate.conn, "t", execution)
    assert (made["state"], made["origin"], made["attempt"], made["failures"]) == ("queued", "redrive", 1, 0)
    letter = get_letter(gate.conn, "t", letter_id)
    assert (letter["state"], letter["redriven_as"], letter["resolved_by"]) == ("redriven", made["id"], "anna")
    assert audited(gate) == [("anna", "dead_letter.redrive", letter["id"])]
    (entry,) = list_audit(gate.conn, "t").items
    assert entry["details"] == {
        "before": {"state": "open"},
        "after": {"state": "redriven", "redriven_as": made["id"]},
        "params_changed": False,
    }
    with pytest.raises(ConflictError, match="redriven already"):
        discard_letter(gate.conn, "t", letter_id, ANNA)


def test_what_was_redriven_runs_with_the_letters_params_or_those_given(gate: Gate) -> None:
    gate.update(gate.job_id, params=Json({"n": 1}))
    letters = [bury(gate, NOON_MS + n) for n in range(2)]
    gate.update(gate.job_id, params=Json({"n": 2}), state="paused")
    executions = [
        redrive_letter(gate.conn, "t", letters[0], ANNA),
        redrive_letter(gate.conn, "t", letters[1], ANNA, {"n": 3}),
    ]
    fires = [
        gate.fire(scheduled_ms_of(execution), execution_id=execution, schedule_no=0)
        for execution in executions
    ]
    claimed = {run.execution_id: run.params for run in gate.claim(*fires).claimed}
    assert claimed == {executions[0]: b'{"n": 1}', executions[1]: b'{"n": 3}'}
    assert redrive_letter(gate.conn, "t", letters[1], ANNA, {"n": 3}) == executions[1]
    with pytest.raises(ConflictError, match="with other params"):
        redrive_letter(gate.conn, "t", letters[1], ANNA, {"n": 4})
    with pytest.raises(UsageError, match="params"):
        redrive_letter(gate.conn, "t", letters[1], ANNA, {"n": "x" * 70_000})


def test_two_redrives_at_once_make_one_execution(gate: Gate) -> None:
    letter_id = bury(gate)
    with gate.connect() as first:
        made = redrive_letter(first, "t", letter_id, ANNA)
        with blocked(gate.dsn, lambda conn: redrive_letter(conn, "t", letter_id, Actor("bert"))) as second:
            first.commit()
        assert second.result(LIMIT_S) == made
    assert [actor for actor, _, _ in audited(gate)] == ["anna"]


def test_a_letter_of_a_deleted_job_is_not_redriven(gate: Gate) -> None:
    letter_id = bury(gate)
    other = bury(gate, job_id=gate.add_job())
    with gate.conn.transaction():
        gate.conn.execute(
            "UPDATE shardwheel.jobs SET state = 'deleted' WHERE job_id = %s", [Uuid(gate.job_id)]
        )
    with pytest.raises(ConflictError, match="its job is deleted"):
        redrive_letter(gate.conn, "t", letter_id, ANNA)
    dealt = redrive_some(gate.conn, "t", OPEN, ANNA)
    assert (dealt.done, dealt.refused, dealt.next_cursor) == (1, {"job_deleted": 1}, None)
    assert get_letter(gate.conn, "t", letter_id)["state"] == "open"
    assert get_letter(gate.conn, "t", other)["state"] == "redriven"


def test_a_discard_is_final_and_said_once(gate: Gate) -> None:
    letter_id = bury(gate)
    for _ in range(2):
        discard_letter(gate.conn, "t", letter_id, ANNA)
    with pytest.raises(ConflictError, match="discarded"):
        redrive_letter(gate.conn, "t", letter_id, ANNA)
    assert [action for _, action, _ in audited(gate)] == ["dead_letter.discard"]
    with pytest.raises(NotFoundError):
        discard_letter(gate.conn, "t", bytes(16), ANNA)


def test_a_filter_means_what_it_says_page_by_page(gate: Gate) -> None:
    other_job = gate.add_job(task="other", tags=["slow"])
    letters = [bury(gate, NOON_MS + n) for n in range(5)]
    gate.conn.execute("UPDATE shardwheel.jobs SET task = 'work' WHERE job_id = %s", [Uuid(other_job)])
    odd = bury(gate, job_id=other_job, error_class="KeyError")
    for wanted, count in (
        (OPEN, 6),
        (OPEN._replace(task="work"), 6),
        (OPEN._replace(error_class="KeyError"), 1),
        (OPEN._replace(tag="slow"), 1),
        (OPEN._replace(job_id=gate.job_id), 5),
        (OPEN._replace(reason="fatal"), 6),
        (OPEN._replace(until_ms=NOON_MS - 86_400_000), 0),
        (OPEN._replace(state="redriven"), 0),
    ):
        assert count_letters(gate.conn, "t", wanted) == count, wanted
        assert len(list_letters(gate.conn, "t", wanted).items) == count
    discard_some(gate.conn, "t", OPEN._replace(tag="slow"), ANNA)
    assert get_letter(gate.conn, "t", odd)["state"] == "discarded"

    done, cursor, pages = 0, None, 0
    while pages == 0 or cursor is not None:
        dealt = redrive_some(gate.conn, "t", OPEN, ANNA, cursor=cursor, at_once=2)
        done, cursor, pages = done + dealt.done, dealt.next_cursor, pages + 1
    assert (done, pages) == (5, 3)
    assert count_letters(gate.conn, "t") == 0
    assert {get_letter(gate.conn, "t", letter)["state"] for letter in letters} == {"redriven"}


def test_another_tenants_letters_executions_and_audit_are_not_there(gate: Gate) -> None:
    letter_id = bury(gate)
    execution = id_of(get_letter(gate.conn, "t", letter_id)["execution_id"])
    for attempt in (
        lambda: get_letter(gate.conn, "rival", letter_id),
        lambda: redrive_letter(gate.conn, "rival", letter_id, ANNA),
        lambda: discard_letter(gate.conn, "rival", letter_id, ANNA),
        lambda: get_execution(gate.conn, "rival", execution),
    ):
        with pytest.raises(NotFoundError):
            attempt()
    assert redrive_some(gate.conn, "rival", OPEN, ANNA).done == 0
    assert discard_some(gate.conn, "rival", OPEN, ANNA).done == 0
    discard_letter(gate.conn, "t", letter_id, ANNA)
    assert list_letters(gate.conn, "rival", LetterFilter(state=None)).items == []
    assert list_executions(gate.conn, "rival").items == []
    assert list_audit(gate.conn, "rival").items == []


def test_the_api_may_redrive_for_its_own_tenant(gate: Gate) -> None:
    """By the role that it has: whatever the statement says, the policies hold."""
    letter_id = bury(gate)
    with gate.conn.transaction():
        gate.conn.execute(
            "SELECT set_config('role', 'shardwheel_api', true), set_config('shardwheel.tenant', 't', true)"
        )
        execution = redrive_letter(gate.conn, "t", letter_id, ANNA)
        assert get_execution(gate.conn, "t", execution)["state"] == "queued"
        assert [entry["actor"] for entry in list_audit(gate.conn, "t").items] == ["anna"]


def test_executions_are_listed_latest_first_and_by_filter(gate: Gate) -> None:
    other_job = gate.add_job(task="other", tags=["slow"])
    gate.claim(*(gate.fire(NOON_MS + n) for n in range(5)))
    gate.claim(gate.fire(NOON_MS + 9, job_id=other_job), tasks=frozenset({"other"}))
    gate.claim(gate.fire(NOON_MS + 20, kind=FireKind.SKIP, reason="misfire"))
    first = list_executions(gate.conn, "t", limit=3)
    assert first.next_cursor is not None
    rest = list_executions(gate.conn, "t", limit=100, cursor=first.next_cursor)
    times = [item["scheduled_at"] for item in [*first.items, *rest.items]]
    assert len(times) == 7 and times == sorted(times, reverse=True) and rest.next_cursor is None
    for wanted, count in (
        (ExecutionFilter(state="running"), 6),
        (ExecutionFilter(state="skipped", reason="misfire"), 1),
        (ExecutionFilter(task="other"), 1),
        (ExecutionFilter(tag="slow"), 1),
        (ExecutionFilter(job_id=gate.job_id), 6),
        (ExecutionFilter(from_ms=NOON_MS + 1, until_ms=NOON_MS + 9), 4),
        (ExecutionFilter(origin="redrive"), 0),
    ):
        assert len(list_executions(gate.conn, "t", wanted).items) == count, wanted
    for bad in ({"limit": 0}, {"limit": 201}, {"cursor": "x"}):
        with pytest.raises(UsageError):
            list_executions(gate.conn, "t", **bad)
    with pytest.raises(UsageError, match="state"):
        list_executions(gate.conn, "t", ExecutionFilter(state="lost"))


def test_the_audit_is_read_by_what_was_done_to_what(gate: Gate) -> None:
    letters = [bury(gate, NOON_MS + n) for n in range(3)]
    for letter in letters[:2]:
        redrive_letter(gate.conn, "t", letter, ANNA)
    discard_letter(gate.conn, "t", letters[2], Actor("bert"))
    assert len(list_audit(gate.conn, "t", AuditFilter(actor="anna")).items) == 2
    (entry,) = list_audit(gate.conn, "t", AuditFilter(action="dead_letter.discard")).items
    assert id_of(entry["object_id"]) == letters[2]
    page = list_audit(gate.conn, "t", limit=2)
    assert page.next_cursor is not None
    assert len(list_audit(gate.conn, "t", cursor=page.next_cursor).items) == 1
