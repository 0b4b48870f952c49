"""What may be sent about DAGs, as the document describes it. `dag.parse_dag` reads a DAG; a test compares."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shardwheel.api.bodies import Duration, Key, Params, Small, Time
from shardwheel.retry import Backoff

TaskKey = Annotated[
    str,
    Meta(
        description="Its name within the DAG: letters, digits, `_`, `-` and `.`.",
        min_length=1,
        max_length=100,
        pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$",
    ),
]


class DagTaskBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task of a DAG: it runs once a run, after all its parents."""

    key: TaskKey
    task: Annotated[
        str, Meta(description="The task type: which handler runs it.", min_length=1, max_length=200)
    ]
    params: Params = {}
    depends_on: Annotated[list[str], Meta(description="Keys of the tasks that it waits for.")] = []
    fan_out: Annotated[bool, Meta(description="Once per item of its one parent's output, a list.")] = False
    priority: Literal["critical", "high", "normal", "low"] = "normal"
    pool: Literal["short", "medium", "long"] = "short"
    timeout_s: Annotated[float, Meta(ge=0.001, le=604_800)] = 60.0
    max_retries: Annotated[int, Meta(ge=0, le=1_000)] = 3
    backoff: Backoff = Backoff()
    not_after_s: Annotated[float, Meta(ge=0, le=31_622_400)] | None = None


class DagBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A DAG as posted: all but `tasks` may be left out or null. Without a schedule only a trigger runs it."""

    tasks: Annotated[list[DagTaskBody], Meta(description="Edges without a cycle.", min_length=1)]
    name: Annotated[str, Meta(description="For people.", max_length=200)] | None = ""
    cron: Annotated[str, Meta(description="Such as 0 2 * * *, in `time_zone`.")] | None = None
    every: Duration | None = None
    run_at: Time | None = None
    policy: (
        Annotated[
            Literal["fail_fast", "continue", "retry"], Meta(description="What follows from a dead task.")
        ]
        | None
    ) = "fail_fast"
    sla_s: Annotated[Duration, Meta(description="A run is to be over so long after its time.")] | None = None
    time_zone: Annotated[str, Meta(description="An IANA name.")] | None = "UTC"
    dst_gap: Literal["shift", "skip"] | None = "shift"
    dst_fold: Literal["first", "last", "both"] | None = "first"
    exclude: Annotated[list[str], Meta(description="Dates without a run.", max_length=366)] | None = []
    start_at: Time | None = None
    end_at: Time | None = None
    max_runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None
    jitter_s: (
        Annotated[Duration, Meta(description="Runs are spread over so long after their time.")] | None
    ) = 0
    priority: Literal["critical", "high", "normal", "low"] | None = "normal"
    pool: Literal["short", "medium", "long"] | None = "short"
    max_retries: Annotated[int, Meta(description="Rounds of the policy `retry`.", ge=0, le=1_000)] | None = 3
    backoff: Annotated[Backoff, Meta(description="Between the rounds of the policy `retry`.")] | None = (
        Backoff()
    )
    misfire: Literal["fire_all", "fire_last", "skip"] | None = "fire_last"
    misfire_grace_s: Annotated[float, Meta(ge=0, le=31_622_400)] | None = 60.0
    catchup_window: Duration | None = "1h"
    overlap: Literal["allow", "skip", "queue"] | None = "allow"
    not_after_s: Annotated[float, Meta(ge=0, le=31_622_400)] | None = None
    tags: Annotated[list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=32)] | None = []
    idempotency_key: Key | None = None


# An edit: the same fields, none of them needed, `null` to take one away.
DagEdit = msgspec.defstruct(
    "DagEdit",
    [
        (field.name, field.type | None | msgspec.UnsetType, msgspec.UNSET)
        for field in msgspec.structs.fields(DagBody)
        if field.name != "idempotency_key"
    ],
    bases=(Small,),
    namespace={
        "__doc__": "The fields of a DAG that are to change; null takes one away. `tasks` are all of them."
    },
    kw_only=True,
    forbid_unknown_fields=True,
)


class TriggerDagBody(Small):
    params: (
        Annotated[dict[str, Any], Meta(description="Over those of each task, field by field, in this run.")]
        | None
    ) = None
    idempotency_key: Key | None = None


class RerunBody(Small):
    tasks: Annotated[list[str], Meta(description="Only these failed tasks, by key.")] | None = None


class CompleteBody(Small):
    output: Annotated[Any, Meta(description="What its children get, as if it had returned it; 10 KB.")] = None


class SkipBody(Small):
    children: Annotated[
        Literal["run", "skip"], Meta(description="Whether they run without it, or are skipped too.")
    ] = "run"
