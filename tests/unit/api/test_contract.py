"""The public surface, in the words of the contract that the project was given: no route is missing."""

from __future__ import annotations

import re

from shardwheel.api.rules import RULES

CONTRACT = """
jobs: `POST /jobs`, `POST /jobs:batch` (≤ 1,000, all or none), `GET /jobs`, `GET|PATCH|DELETE /jobs/{id}`,
`POST /jobs/{id}:pause | :resume | :trigger | :backfill`, `GET /jobs/{id}/next?n=`,
`GET /jobs/{id}/executions`
executions: `GET /executions`, `GET /executions/{id}` (with its attempts), `POST /executions/{id}:cancel`,
`GET /executions/{id}/logs`, `GET /executions/{id}/explain`
tasks: `GET /tasks`, `POST /tasks/{name}:pause | :resume`
dags: `POST /dags`, `GET /dags`, `GET|PATCH|DELETE /dags/{id}`, `POST /dags/{id}:trigger | :pause | :resume`,
`GET /dags/{id}/runs`, `GET /dags/{id}/runs/{run}`, `POST /dags/{id}/runs/{run}:rerun`,
`POST /dags/{id}/runs/{run}/tasks/{task}:force-complete | :skip`
dead letters: `GET /dead-letters`, `GET /dead-letters/{id}`, `POST /dead-letters/{id}:redrive | :discard`,
`POST /dead-letters:redrive | :discard` (by filter)
cluster: `GET /shards`, `GET /partitions`, `GET /wheel?from=&to=` (entries per time bucket and shard),
`POST /rebalance`, `POST /shards/{id}:drain`; `GET /audit`; `GET /alerts`, `POST /alerts/{id}:silence`
`GET /events` (server-sent), `GET /healthz`, `GET /readyz`
"""


def routes_in(text: str) -> set[str]:
    """`GET|PATCH /jobs/{id}` and `POST /jobs/{id}:pause | :resume` are two routes each."""
    found = set()
    for methods, path in re.findall(r"`([A-Z|]+) (/[^`?]+)[^`]*`", text):
        first, *verbs = path.split(" | ")
        stem = first.rpartition(":")[0] if ":" in first else first
        for method in methods.split("|"):
            found |= {f"{method} {one}" for one in (first, *(stem + verb for verb in verbs))}
    return found


def test_no_route_of_the_contract_is_missing() -> None:
    wanted = routes_in(CONTRACT)
    assert len(wanted) == 50 and "POST /dags/{id}/runs/{run}/tasks/{task}:skip" in wanted
    assert sorted(wanted - set(RULES)) == []
