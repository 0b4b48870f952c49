"""Nobody ends a task of a DAG behind its run's back: every statement that can is known here."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

_WRITES = re.compile(r"(UPDATE|INSERT INTO) shardwheel\.executions\b")
_STATE = re.compile(r"\bSET\b.*?\bstate = |\(execution_id.*?\bstate\b", re.DOTALL)
_ENDS = re.compile(r"'(succeeded|dead|cancelled|skipped|force_completed)'|\b\w+\.state\b|%\(state\)s")

# Whoever calls these locks the run first, and resolves what they say has ended.
RESOLVED = {
    "settle",  # settle.apply_decisions
    "cancel_execution",  # requests._cancel_of_dag
    "dag_add",  # dag_resolve.Resolution
    "dag_end_tasks",
    "dag_mend",  # dag_hands
    "dag_requeue",
    "dag_skip_doomed",  # dag_sweep
    "dag_stop",
}
# Of these none is a task of a DAG that ends: they make rows of schedules, or let go on what was held.
NO_TASKS = {
    "cancel_ahead",  # by a fire's id, which is never a task's
    "claim",  # holds what can't run; the sweep ends it (dag_skip_doomed)
    "expand_work",
    "redrive_letters",  # but those of DAGs: letter_resuming
    "settle_old",
    "skip_held",  # but those of DAGs
}

# These end nothing.
GOES_ON = {"dag_reopen", "heartbeat", "sweep_paused", "write_notes"}


def _statements() -> dict[str, str]:
    found = {}
    for path in files("shardwheel.store").iterdir():
        if path.name.endswith(".sql"):
            text = re.sub(r"--[^\n]*", "", path.read_text())
            if _WRITES.search(text) and _STATE.search(text) and _ENDS.search(text):
                found[path.name.removesuffix(".sql")] = text
    return found


def test_every_statement_that_may_end_an_execution_is_known() -> None:
    assert set(_statements()) == RESOLVED | NO_TASKS | GOES_ON


@pytest.mark.parametrize("name", ["redrive_letters", "skip_held"])
def test_what_leaves_tasks_alone_says_so(name: str) -> None:
    assert "dag_run_id IS NULL" in _statements()[name]


def test_the_claim_skips_no_task() -> None:
    rulings = re.findall(r"'skipped:(\w+)'", _statements()["claim"])
    tasks = re.findall(r"WHEN dag_run_id IS NULL THEN 'skipped:(\w+)' ELSE 'held:\1'", _statements()["claim"])
    assert set(rulings) - set(tasks) == {"paused"}  # of fires: "paused AND dag_run_id IS NULL"
