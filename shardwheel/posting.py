"""How a job is posted: the fields of the public contract, checked before anything is stored.

Every refusal is a `UsageError` that names the field, the problem and the remedy; unknown fields are
refused by name. What the schedule's own fields mean is `timing`'s business; here they only pass through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NoReturn

import msgspec

from shardwheel.credentials import credential_in
from shardwheel.destinations import STRICT, CallbackRules, require_callback
from shardwheel.errors import TooLargeError, UsageError
from shardwheel.ids import id_of
from shardwheel.jsonb import bytes_when_read, has_nul
from shardwheel.misfits import misfit_of
from shardwheel.nesting import MOST_LEVELS, is_deeper
from shardwheel.retry import Backoff
from shardwheel.times import parse_duration, refuse
from shardwheel.timing import PostedTiming, parse_schedule

PARAMS_LIMIT_BYTES = 65_536
LONGEST_NAME = 200
MOST_TAGS = 32
LONGEST_TAG = 64
LONGEST_TIMEOUT_S = 7 * 86_400
MOST_RETRIES = 1_000
PRIORITIES = ("critical", "high", "normal", "low")

TIMING_FIELDS = frozenset(
    {"cron", "every", "run_at", "delay", "parents", "time_zone", "dst_gap", "dst_fold", "exclude"}
    | {"start_at", "end_at", "max_runs", "jitter_s"}
)
# What is said of a schedule's times, beside the schedule itself.
_POLICY_FIELDS = frozenset({"misfire", "misfire_grace_s", "catchup_window", "overlap"})
# What a job with parents can't have: it runs when they are over, once in each run of theirs.
SCHEDULE_FIELDS = TIMING_FIELDS - {"parents"} | _POLICY_FIELDS
MOST_PARENTS = 1_000
_USUAL_WINDOW = "1h"


class JobPosting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job as posted. The timing fields are taken as they come and checked together."""

    task: str
    name: str = ""
    params: dict[str, Any] = {}
    cron: Any = None
    every: Any = None
    run_at: Any = None
    delay: Any = None
    parents: Annotated[list[str], msgspec.Meta(max_length=MOST_PARENTS)] | None = None
    time_zone: Any = "UTC"
    dst_gap: Any = "shift"
    dst_fold: Any = "first"
    exclude: Any = ()
    start_at: Any = None
    end_at: Any = None
    max_runs: Any = None
    jitter_s: Any = 0
    priority: Literal["critical", "high", "normal", "low"] = "normal"
    pool: Literal["short", "medium", "long"] = "short"
    timeout_s: float = 60.0
    max_retries: int = 3
    backoff: Backoff = Backoff()
    misfire: Literal["fire_all", "fire_last", "skip"] = "fire_last"
    misfire_grace_s: float = 60.0
    catchup_window: Any = _USUAL_WINDOW
    overlap: Literal["allow", "skip", "queue"] = "allow"
    not_after_s: float | None = None
    idempotency_key: str | None = None
    tags: list[str] = []
    callback_url: str | None = None

    def timing(self, now_ms: int) -> PostedTiming:
        fields = {name: getattr(self, name) for name in TIMING_FIELDS}
        return parse_schedule(now_ms=now_ms, **fields)

    def columns(self) -> dict[str, Any]:
        """The columns of `jobs` that are the poster's own words, apart from the timing."""
        return {
            "task": self.task,
            "name": self.name,
            "params": self.params,
            "tags": self.tags,
            "pool": self.pool,
            "priority": PRIORITIES.index(self.priority),
            "timeout_ms": round(self.timeout_s * 1000),
            "max_retries": self.max_retries,
            "backoff": msgspec.to_builtins(self.backoff),
            "misfire": self.misfire,
            "misfire_grace_ms": round(self.misfire_grace_s * 1000),
            "catchup_window_ms": parse_duration(self.catchup_window, "catchup_window"),
            "overlap": self.overlap,
            "not_after_ms": None if self.not_after_s is None else round(self.not_after_s * 1000),
            "callback_url": self.callback_url,
        }


def parse_posting(body: Mapping[str, Any], callbacks: CallbackRules = STRICT) -> JobPosting:
    """Check a job as posted (or merged with an edit). `callbacks`: where a site lets a callback_url lead."""
    try:
        posting = msgspec.convert(dict(body), JobPosting)
    except msgspec.ValidationError as error:
        field, problem, remedy = misfit_of(error, JobPosting)
        raise UsageError(f"{field}: {problem}; {remedy}", field=field) from error
    _check_texts(posting)
    _check_numbers(posting)
    if posting.callback_url is not None:
        require_callback(posting.callback_url, callbacks)
    if posting.parents:
        _check_parents(posting, posting.parents)
    return posting


def _check_texts(posting: JobPosting) -> None:
    if not 1 <= len(posting.task) <= LONGEST_NAME:
        refuse("task", f"has {len(posting.task)} characters", f"give 1 to {LONGEST_NAME}")
    if len(posting.name) > LONGEST_NAME:
        refuse("name", f"has {len(posting.name)} characters", f"give at most {LONGEST_NAME}")
    if len(posting.tags) > MOST_TAGS or any(not 1 <= len(tag) <= LONGEST_TAG for tag in posting.tags):
        refuse(
            "tags", "are too many or too long", f"give at most {MOST_TAGS} of 1 to {LONGEST_TAG} characters"
        )
    key = posting.idempotency_key
    if key is not None and not 1 <= len(key) <= LONGEST_NAME:
        refuse("idempotency_key", f"has {len(key)} characters", f"give 1 to {LONGEST_NAME}")
    if "\0" in "".join((posting.task, posting.name, key or "", *posting.tags)):
        _refuse_nul(posting)
    check_params(posting.params)


def _refuse_nul(posting: JobPosting) -> NoReturn:
    named = {"task": posting.task, "name": posting.name, "tags": "".join(posting.tags)}
    field = next((name for name, text in named.items() if "\0" in text), "idempotency_key")
    refuse(field, "has a NUL character, which PostgreSQL can't store", "take it out")


def check_params(params: Mapping[str, Any]) -> None:
    if is_deeper(params):
        refuse("params", f"are nested deeper than {MOST_LEVELS} levels", "make them flatter")
    try:
        encoded = msgspec.json.encode(params)
    except (TypeError, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise UsageError(f"params: can't be written as JSON: {error}", field="params") from error
    size = bytes_when_read(params, encoded)
    if size > PARAMS_LIMIT_BYTES:
        written = " with their numbers written out" if size > len(encoded) else ""
        remedy = f"give at most {PARAMS_LIMIT_BYTES}; pass larger data by reference"
        raise TooLargeError(f"params: have {size} bytes{written}; {remedy}", field="params")
    if has_nul(encoded):
        refuse("params", "have a NUL character, which PostgreSQL can't store", "take it out")
    if (where := credential_in(params)) is not None:
        remedy = 'store it where the handler runs, and refer to it as {"$secret": "name"}'
        refuse("params", f"{where:.200} looks like a credential in plain text", remedy)


def _check_numbers(posting: JobPosting) -> None:
    if posting.catchup_window != _USUAL_WINDOW:
        parse_duration(posting.catchup_window, "catchup_window")
    backoff = posting.backoff
    ranges: tuple[tuple[str, float, float, float], ...] = (
        ("timeout_s", posting.timeout_s, 0.001, LONGEST_TIMEOUT_S),
        ("max_retries", posting.max_retries, 0, MOST_RETRIES),
        ("misfire_grace_s", posting.misfire_grace_s, 0, 86_400 * 366),
        ("not_after_s", posting.not_after_s or 0, 0, 86_400 * 366),
        ("backoff.base_s", backoff.base_s, 0, 86_400),
        ("backoff.factor", backoff.factor, 1, 100),
        ("backoff.max_s", backoff.max_s, 0, 86_400 * 31),
        ("backoff.jitter", backoff.jitter, 0, 1),
    )
    for field, value, least, most in ranges:
        if not least <= value <= most:
            refuse(field, f"{value:.12g} is out of range", f"give {least:.12g} to {most:.12g}")


def _check_parents(posting: JobPosting, parents: list[str]) -> None:
    ids = [id_of(parent, field="parents") for parent in parents]
    if len(set(ids)) < len(ids):
        refuse("parents", "names a job twice", "name each once")
    said, unsaid = _of_schedule(posting), _of_schedule(JobPosting(task=posting.task))
    refuse_schedule(name for name in said if said[name] != unsaid[name])


def _of_schedule(posting: JobPosting) -> dict[str, Any]:
    """What it says of a schedule: a default may be spelled out."""
    said = {name: getattr(posting, name) for name in SCHEDULE_FIELDS}
    window_ms = parse_duration(posting.catchup_window, "catchup_window")
    return said | {"exclude": posting.exclude or (), "catchup_window": window_ms}


def refuse_schedule(fields: Iterable[str]) -> None:
    """Of a job with parents: whatever it says of a schedule."""
    for name in sorted(fields):
        problem = "a job with parents has no schedule of its own: it runs when they are over, in each run"
        refuse(name, problem, "leave it out, or say it of the job at the root")
