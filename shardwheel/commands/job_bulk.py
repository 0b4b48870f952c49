"""One verb on a job, or on many: which they are and how many, an answer, then one after the other with
progress.

Each is a request of its own and done when it is answered: what was done stays done if it is cut off, and the
same line again does the rest.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from shardwheel.commands.filters import JOB_KEYS, filter_words, require_one
from shardwheel.commands.verbs import Terminal
from shardwheel.errors import ConflictError, NotFoundError, UsageError

SHOWN = 10
EVERY = 50


class JobTarget(NamedTuple):
    """Which jobs. `state`: the only one in which there is anything to do."""

    job_id: str | None
    filters: list[str] | None
    all_: bool
    state: str | None

    @property
    def is_one(self) -> bool:
        """By its id, and by nothing else."""
        return self.job_id is not None and not (self.filters or self.all_)


def one_or_each(
    at: Terminal,
    target: JobTarget,
    words: tuple[str, str],
    change: Callable[[str], Any],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Change the one that is named, and show it; or all that are meant, and say how many."""
    if target.job_id is not None and target.is_one and not dry_run:
        at.show(change(target.job_id))
    else:
        _each_of(at, target, words, change, dry_run=dry_run, yes=yes)


def _each_of(
    at: Terminal,
    target: JobTarget,
    words: tuple[str, str],
    change: Callable[[str], Any],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    do_word, done_word = words
    jobs = _meant(at, target)
    if dry_run:
        at.show({f"would_be_{done_word}": len(jobs), "ids": [job["id"] for job in jobs]})
        return
    if jobs:
        at.agree(f"{_told(jobs)}\n{do_word.capitalize()} {len(jobs)} jobs?", done_word, yes)
    done, refused = 0, Counter[str]()
    for number, job in enumerate(jobs, 1):
        try:
            change(job["id"])
            done += 1
        except (ConflictError, NotFoundError) as error:
            # It changed since it was listed; the others are still meant.
            refused[str(error)] += 1
        if number % EVERY == 0 and number < len(jobs):
            sys.stderr.write(f"{done_word} {done} of {len(jobs)}\n")
    at.show_dealt(done_word, done, refused)


def _meant(at: Terminal, target: JobTarget) -> list[dict[str, Any]]:
    require_one(target.job_id, target.filters, target.all_)
    if target.job_id is not None:
        raise UsageError("--dry-run: goes with --filter or --all, without an id", field="dry_run")
    words = filter_words(target.filters, JOB_KEYS)
    found = at.api.pages("/jobs", state=target.state, **words)
    if target.state is not None:
        return list(found)
    return [job for job in found if job["state"] != "deleted"]


def _told(jobs: list[dict[str, Any]]) -> str:
    lines = [f"  {job['id']}  {job['name'] or job['task']}" for job in jobs[:SHOWN]]
    return "\n".join(lines + ([f"  … and {len(jobs) - SHOWN} more"] if len(jobs) > SHOWN else []))
