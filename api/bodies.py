"""What may be sent, as the document describes it, and how the small bodies are read.

A job's own fields are checked by `posting`, which every door shares; `JobBody` only describes them here, and
a test compares the two.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from shardwheel.api.limits import decoded
from shardwheel.errors import UsageError
from shardwheel.misfits import misfit_of
from shardwheel.retry import Backoff
from shardwheel.times import refuse

T = TypeVar("T")
Time = Annotated[str, Meta(description="ISO 8601 with a zone, such as 2026-11-20T09:00:00.000Z.")]
Duration = Annotated[
    str | float, Meta(description="A text such as 30s, 1.5s, 5m, 1h, 2d, or a number of seconds.")
]
Key = Annotated[
    str, Meta(description="The same key again gets the same answer, for 24 hours.", max_length=200)
]
Params = Annotated[
    dict[str, Any],
    Meta(description='At most 64 KiB, 100 levels deep. Secrets as {"$secret": "name"} only.'),
]


class Small(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body of a few fields."""


class JobBody(Small, omit_defaults=True):
    """A job as posted: all but `task` may be left out. Without a schedule it runs once, now."""

    task: Annotated[
        str, Meta(description="The task type: which handler runs it.", min_length=1, max_length=200)
    ]
    name: Annotated[str, Meta(description="For people.", max_length=200)] = ""
    params: Params = {}
    cron: Annotated[str, Meta(description="Such as 0 9 * * 1-5, in `time_zone`.")] | None = None
    every: Duration | None = None
    run_at: Time | None = None
    delay: Duration | None = None
    parents: (
        Annotated[
            list[str],
            Meta(description="Ids of jobs that it runs after, in each run of theirs.", max_length=1_000),
        ]
        | None
    ) = None
    time_zone: Annotated[str, Meta(description="An IANA name.")] = "UTC"
    dst_gap: Literal["shift", "skip"] = "shift"
    dst_fold: Literal["first", "last", "both"] = "first"
    exclude: Annotated[list[str], Meta(description="Dates without a run.", max_length=366)] = []
    start_at: Time | None = None
    end_at: Time | None = None
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    jitter_s: Annotated[Duration, Meta(description="Runs are spread over so long after their time.")] = 0
    priority: Literal["critical", "high", "normal", "low"] = "normal"
    pool: Literal["short", "medium", "long"] = "short"
    timeout_s: Annotated[float, Meta(ge=0.001, le=604_800)] = 60.0
    max_retries: Annotated[int, Meta(ge=0, le=1_000)] = 3
    backoff: Backoff = Backoff()
    misfire: Literal["fire_all", "fire_last", "skip"] = "fire_last"
    misfire_grace_s: Annotated[float, Meta(ge=0, le=31_622_400)] = 60.0
    catchup_window: Duration = "1h"
    overlap: Literal["allow", "skip", "queue"] = "allow"
    not_after_s: Annotated[float, Meta(ge=0, le=31_622_400)] | None = None
    idempotency_key: Key | None = None
    tags: Annotated[list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=32)] = []
    callback_url: Annotated[str, Meta(description="Told when an execution ends.")] | None = None


# An edit: the same fields, none of them needed, but those that belong to a job's creation.
CREATION_FIELDS = ("idempotency_key", "parents")
JobEdit = msgspec.defstruct(
    "JobEdit",
    [
        (field.name, field.type | msgspec.UnsetType, msgspec.UNSET)
        for field in msgspec.structs.fields(JobBody)
        if field.name not in CREATION_FIELDS
    ],
    bases=(Small,),
    namespace={"__doc__": "The fields of a job that are to change."},
    kw_only=True,
    forbid_unknown_fields=True,
)


class ResumeBody(Small):
    """What becomes of the times of the pause."""

    missed: Annotated[Literal["skip", "one", "all"], Meta(description="Run none, the last, or all.")] = "skip"
    idempotency_key: Key | None = None


class TriggerBody(Small):
    params: Annotated[dict[str, Any], Meta(description="In place of the job's own.")] | None = None
    idempotency_key: Key | None = None


class BackfillBody(Small):
    """The span to fill, both ends included."""

    from_: Time = msgspec.field(name="from")
    to: Time
    idempotency_key: Key | None = None


class CancelBody(Small):
    job_id: (
        Annotated[str, Meta(description="The execution's job: needed to cancel a run that has no row yet.")]
        | None
    ) = None


class RedriveBody(Small):
    params: Annotated[dict[str, Any], Meta(description="In place of the letter's own.")] | None = None


class LimitBody(Small):
    max_running: Annotated[int, Meta(description="How many may run at once; 0: any number.")] | None = None
    rate: (
        Annotated[str, Meta(description="How many may start, such as 100/min; none: any number.")] | None
    ) = None
    breaker: Annotated[bool, Meta(description="Whether many failures hold it for a while.")] | None = None


class MoveBody(Small):
    to: Annotated[str, Meta(description="The shard that is to own it.")]


class AutomaticBody(Small):
    automatic: Annotated[
        bool, Meta(description="Whether partitions are levelled whenever a shard joins or leaves.")
    ]


class SilenceBody(Small):
    for_: Annotated[Duration, Meta(description="For how long, 31 days at most; 0s ends it.")] = msgspec.field(
        name="for", default="1h"
    )


class LettersBody(Small):
    """Which open dead letters; `all` must be said when nothing else is."""

    task: str | None = None
    reason: str | None = None
    class_: str | None = msgspec.field(name="class", default=None)
    job_id: str | None = None
    tag: str | None = None
    q: str | None = None
    from_: Time | None = msgspec.field(name="from", default=None)
    to: Time | None = None
    all_: bool = msgspec.field(name="all", default=False)
    dry_run: Annotated[bool, Meta(description="Only say how many it would be.")] = False
    limit: (
        Annotated[int, Meta(ge=1, le=1_000, description="Deal with so many at most; `next_cursor` goes on.")]
        | None
    ) = None
    cursor: Annotated[str, Meta(description="`next_cursor` of the request before.")] | None = None


def read_body(body: bytes, kind: type[T]) -> T:
    """A small body; none at all is an empty object."""
    value = decoded(body) if body.strip() else {}
    if not isinstance(value, dict):
        refuse("body", "is not a JSON object", "send one")
    for name, word in value.items():
        if isinstance(word, str) and "\0" in word:
            refuse(name, "has a NUL character, which PostgreSQL can't store", "take it out")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        field, problem, remedy = misfit_of(error, kind)
        raise UsageError(f"{field}: {problem}; {remedy}", field=field) from error
