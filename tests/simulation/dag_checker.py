"""Rule 6 at the end: every run is over, or held for a reason, and stands as an interpreter says.

The interpreter (`interpret`) knows a DAG's shape, how those tasks ended that ran, and what people did; it
says what became of all others. It knows nothing of counters, batches, rows or processes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from shardwheel.ids import text_of
from tests.simulation.checker import ViolationError
from tests.simulation.dag_runs import DIED, DONE, FAILED, SATISFIED, SeenRun, is_over, word_of
from tests.simulation.notes import HandNote

UPSTREAM = frozenset({"upstream_failed", "upstream_skipped"})
STOPPED = frozenset({"run_failed", "stopped"})


def interpret(parents: Mapping[bytes, Collection[bytes]], ends: Mapping[bytes, str]) -> dict[bytes, str]:
    """What becomes of each task. `ends`: of those that ran, or that somebody ended by hand."""
    words = dict(ends)
    while ready := [
        one for one in parents if one not in words and all(parent in words for parent in parents[one])
    ]:
        for task in ready:
            above = {words[parent] for parent in parents[task]}
            able = "runs" if above <= SATISFIED else "upstream_skipped"
            words[task] = "upstream_failed" if above & FAILED else able
    return words


def outcome(policy: str, words: Collection[str], *, cancelled: bool) -> str:
    done, died = sum(word in DONE for word in words), any(word in DIED for word in words)
    if cancelled:
        return "cancelled"
    if done == len(words):
        return "succeeded"
    return "failed" if not done or (died and policy == "fail_fast") else "partial"


def check_runs(runs: Collection[SeenRun], hands: Collection[HandNote]) -> int:
    """Look at every run that is over; how many tasks they had. (Of those that are not, `is_quiet` has seen
    that they are held.)"""
    by_run: dict[bytes, list[HandNote]] = {}
    for note in sorted(hands, key=lambda note: note.xid):
        by_run.setdefault(note.run_id, []).append(note)
    over = [seen for seen in runs if not seen.run.unfinished]
    return sum(_check_run(seen, by_run.get(seen.run.dag_run_id, [])) for seen in over)


def _check_run(seen: SeenRun, hands: list[HandNote]) -> int:
    run, words = seen.run, seen.words
    _check_hands(seen, hands)
    ends = {task: word for task, word in words.items() if word not in UPSTREAM}
    said = interpret(seen.parents, ends)
    is_stopped = run.state == "cancelled" or (seen.policy == "fail_fast" and bool(DIED & set(words.values())))
    for task_id, word in words.items():
        if said[task_id] != word and not (is_stopped and word == "upstream_failed"):
            _refuse(seen, f"{_key(seen, task_id)} is {word}, and should be {said[task_id]}")
        if word in STOPPED and not is_stopped:
            _refuse(seen, f"{_key(seen, task_id)} is {word}, and nothing stopped its run")
        _check_items(seen, task_id, word)
    _check_ran(seen, hands)
    right = outcome(seen.policy, words.values(), cancelled=any(note.became == "cancelled" for note in hands))
    if run.state != right:
        _refuse(seen, f"should be {right}")
    return len(words)


def _check_hands(seen: SeenRun, hands: list[HandNote]) -> None:
    """The last hand on a task stands."""
    last = {note.key: note.became for note in hands if note.key}
    for task_id, task in seen.tasks.items():
        if task.task_key in last and seen.words[task_id] != last[task.task_key]:
            _refuse(seen, f"{task.task_key} is {seen.words[task_id]}: {last[task.task_key]} by hand")


def _check_ran(seen: SeenRun, hands: list[HandNote]) -> None:
    """Who ran or was stopped on the way had parents that were satisfied, at least until somebody skipped one
    of them with its children."""
    by_hand = {note.key for note in hands}
    for task_id, word in seen.words.items():
        if word in UPSTREAM | STOPPED or _key(seen, task_id) in by_hand:
            continue
        for parent in seen.parents[task_id]:
            if seen.words[parent] not in SATISFIED and _key(seen, parent) not in by_hand:
                _refuse(seen, f"{_key(seen, task_id)} ran after {_key(seen, parent)}")


def _check_items(seen: SeenRun, task_id: bytes, word: str) -> None:
    """A fan-out has an item for each of its parent's list, and ends as they do."""
    items = seen.items.get(task_id, [])
    if not seen.tasks[task_id].fan_out:
        if items:
            _refuse(seen, f"{_key(seen, task_id)} has items")
        return
    if not all(is_over(word_of(item)) for item in items):
        _refuse(seen, f"{_key(seen, task_id)} is over, and has items that are not")
    if word == "succeeded":
        (parent,) = seen.parents[task_id]
        output = seen.rows[parent].output
        listed = msgspec.json.decode(output or b"null")
        if not isinstance(listed, list) or sorted(item.item_no or 0 for item in items) != [
            *range(len(listed))
        ]:
            _refuse(seen, f"{_key(seen, task_id)} has {len(items)} items of {listed}")
        if any(word_of(item) not in SATISFIED for item in items):
            _refuse(seen, f"{_key(seen, task_id)} succeeded, and one of its items did not")
    if word == "item_skipped" or (word == "run_failed" and items):
        ends = {word_of(item) for item in items}
        if ends & DIED or ends <= SATISFIED:
            _refuse(seen, f"{_key(seen, task_id)} is {word}, and its items are {sorted(ends)}")


def _key(seen: SeenRun, task_id: bytes) -> str:
    return seen.tasks[task_id].task_key


def _refuse(seen: SeenRun, what: str) -> None:
    words = {_key(seen, task_id): word for task_id, word in seen.words.items()}
    raise ViolationError(
        f"DAG run {text_of(seen.run.dag_run_id)} ({seen.policy}, {seen.run.state}) {what}: {words}"
    )
