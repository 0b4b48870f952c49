"""Who may call what: one table. A route without a line here can't be served, and a test walks it.

`tasks`: the call makes runs of a job possible or ends them, so a token that is limited to some task types is
held to them.
"""

from __future__ import annotations

from typing import NamedTuple

from shardwheel.errors import ForbiddenError
from shardwheel.roles import Role
from shardwheel.tokens import Caller


class Rule(NamedTuple):
    """The least role (None: anybody, without a token)."""

    role: Role | None
    tasks: bool = False


_ANYBODY = Rule(None)
_VIEWER = Rule(Role.VIEWER)
_PRODUCER = Rule(Role.PRODUCER, tasks=True)
_OPERATOR = Rule(Role.OPERATOR, tasks=True)
_ADMIN = Rule(Role.ADMIN)

RULES: dict[str, Rule] = {
    "POST /jobs": _PRODUCER,
    "POST /jobs:batch": _PRODUCER,
    "GET /jobs": _VIEWER,
    "GET /jobs/{id}": _VIEWER,
    "PATCH /jobs/{id}": _PRODUCER,
    "DELETE /jobs/{id}": _PRODUCER,
    "POST /jobs/{id}:pause": _OPERATOR,
    "POST /jobs/{id}:resume": _OPERATOR,
    "POST /jobs/{id}:trigger": _PRODUCER,
    "POST /jobs/{id}:backfill": _OPERATOR,
    "GET /jobs/{id}/next": _VIEWER,
    "GET /jobs/{id}/executions": _VIEWER,
    "GET /jobs/{id}/explain": _VIEWER,
    "PUT /jobs/{id}/dependencies/{parent_id}": _PRODUCER,
    "DELETE /jobs/{id}/dependencies/{parent_id}": _PRODUCER,
    "GET /executions": _VIEWER,
    "GET /executions/{id}": _VIEWER,
    "GET /executions/{id}/explain": _VIEWER,
    "GET /executions/{id}/logs": _VIEWER,
    "POST /executions/{id}:cancel": _PRODUCER,
    "POST /dags": _PRODUCER,
    "GET /dags": _VIEWER,
    "GET /dags/{id}": _VIEWER,
    "PATCH /dags/{id}": _PRODUCER,
    "DELETE /dags/{id}": _PRODUCER,
    "POST /dags/{id}:pause": _OPERATOR,
    "POST /dags/{id}:resume": _OPERATOR,
    "POST /dags/{id}:trigger": _PRODUCER,
    "GET /dags/{id}/runs": _VIEWER,
    "GET /dags/{id}/runs/{run}": _VIEWER,
    "GET /dag-runs/{id}": _VIEWER,
    "POST /dags/{id}/runs/{run}:rerun": _OPERATOR,
    "POST /dags/{id}/runs/{run}:cancel": _PRODUCER,
    "POST /dags/{id}/runs/{run}/tasks/{task}:force-complete": _OPERATOR,
    "POST /dags/{id}/runs/{run}/tasks/{task}:skip": _OPERATOR,
    "GET /dead-letters": _VIEWER,
    "GET /dead-letters/{id}": _VIEWER,
    "POST /dead-letters/{id}:redrive": _OPERATOR,
    "POST /dead-letters/{id}:discard": _OPERATOR,
    "POST /dead-letters:redrive": _OPERATOR,
    "POST /dead-letters:discard": _OPERATOR,
    "GET /tasks": _VIEWER,
    "POST /tasks/{name}:pause": _OPERATOR,
    "POST /tasks/{name}:resume": _OPERATOR,
    "POST /tasks/{name}:limit": _OPERATOR,
    "GET /shards": Rule(Role.OPERATOR),
    "GET /partitions": Rule(Role.OPERATOR),
    "GET /pools": Rule(Role.OPERATOR),
    "GET /events": _VIEWER,
    "GET /wheel": Rule(Role.OPERATOR),
    "GET /rebalance": Rule(Role.OPERATOR),
    "POST /rebalance": _ADMIN,
    "PATCH /rebalance": _ADMIN,
    "POST /partitions/{id}:move": _ADMIN,
    "POST /shards/{id}:drain": _ADMIN,
    "POST /shards/{id}:undrain": _ADMIN,
    "GET /audit": Rule(Role.OPERATOR),
    "GET /alerts": Rule(Role.OPERATOR),
    "POST /alerts/{id}:silence": Rule(Role.OPERATOR),
    "GET /openapi.json": _ANYBODY,
    "GET /healthz": _ANYBODY,
    "GET /readyz": _ANYBODY,
    "GET /metrics": _ANYBODY,
}


def check_role(caller: Caller, name: str, role: Role) -> None:
    if caller.role < role:
        raise ForbiddenError(
            f"{name} wants the role {role.word} or more; this token has {caller.role.word}", field="role"
        )


def check_task(caller: Caller, task: str) -> None:
    if caller.tasks is not None and task not in caller.tasks:
        raise ForbiddenError(f"task: this token may not enqueue {task!r:.80}", field="task")
