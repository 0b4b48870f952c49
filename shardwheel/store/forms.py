"""What the jobs of a batch have in common, worked out and sent once. Pure.

Jobs that are posted together mostly differ in their params and times alone: the same task, the same limits,
often the same schedule. To check, encode and decode all of that for each of a thousand jobs took most of a
batch's time. So what they share is a *form*, and a job is its form's number with what is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from shardwheel.job import JobState
from shardwheel.posting import JobPosting
from shardwheel.store.job_row import JobRow
from shardwheel.timing import PostedTiming

# What is a job's own and not its form's.
_NOTHING_OWN: dict[str, Any] = {"name": "", "params": {}, "idempotency_key": None}


# The columns of a row that follow one another and come from the posting as a whole.
_REST = JobRow._fields[JobRow._fields.index("tags") : JobRow._fields.index("version")]


class Form(NamedTuple):
    """What a posting says but for its name and params. `number`: of the columns that are sent for it."""

    number: int
    timing: PostedTiming
    task: str
    rest: tuple[Any, ...]
    callback_url: str | None

    def row(
        self, posting: JobPosting, tenant_id: str, job_id: bytes, partition: int, given: Sequence[int]
    ) -> JobRow:
        """The job as it stands in its table. By position: by name it took as long as all else for a job."""
        whose = job_id, tenant_id, partition, "job", JobState.ACTIVE.value
        said = self.task, posting.name, posting.params
        return JobRow._make((*whose, *said, *self.rest, *given, self.callback_url, None, []))


class Forms:
    """The forms of a batch that is stored now."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._by_posting: dict[bytes, Form] = {}
        self._numbers: dict[str, int] = {}

    def of(self, posting: JobPosting) -> Form:
        shared = msgspec.structs.replace(posting, **_NOTHING_OWN)
        try:
            key = msgspec.json.encode(shared, enc_hook=repr)
        except (OverflowError, UnicodeEncodeError, RecursionError):
            return self._made(shared)  # A field that can't be written: it is refused there, by name.
        form = self._by_posting.get(key)
        if form is None:
            form = self._by_posting[key] = self._made(shared)
        return form

    @property
    def sent(self) -> str:
        """The columns of all forms as a JSON array: the first one's number is 1."""
        return f"[{','.join(self._numbers)}]"

    def _made(self, posting: JobPosting) -> Form:
        timing = posting.timing(self._now_ms)
        columns = posting.columns() | timing_columns(timing)
        number = self._number_of(columns, timing.schedule.kind == "once")
        rest = tuple(columns[name] for name in _REST)
        return Form(number, timing, posting.task, rest, posting.callback_url)

    def _number_of(self, columns: dict[str, Any], is_once: bool) -> int:
        """Equal columns have one number. What counts from a time of the job's own does so by a flag: jobs
        that run once, each at another time, have one form."""
        flags = {"is_anchored": columns["anchor_ms"] is not None, "is_once": is_once}
        own = {"name", "params", "anchor_ms"} | ({"last_ms"} if is_once else set())
        sent = {name: value for name, value in columns.items() if name not in own}
        return self._numbers.setdefault(msgspec.json.encode(sent | flags).decode(), len(self._numbers) + 1)


def timing_columns(timing: PostedTiming) -> dict[str, Any]:
    """The columns of `jobs` that are its timing."""
    is_once = timing.schedule.kind == "once"
    return {
        "schedule": timing.schedule.text,
        "anchor_ms": timing.anchor_ms if timing.schedule.kind in ("once", "every") else None,
        "start_ms": timing.start_ms,
        "end_ms": timing.end_ms,
        "last_ms": timing.anchor_ms if is_once else timing.end_ms,
        "max_runs": timing.max_runs,
        "jitter_ms": timing.jitter_ms,
    }
