"""The API for tests: the real application on the real HTTP server and PostgreSQL, without etcd and shards."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg

from shardwheel.api.app import PREFIX, ROUTES, make_app
from shardwheel.api.auth import Gatekeeper
from shardwheel.api.desk import open_desk, unknown_lag
from shardwheel.api.server import open_socket, uvicorn_for
from shardwheel.commands.api_steering import CoordinatorSteering
from shardwheel.dag_run import Ended
from shardwheel.http import address_of_socket
from shardwheel.ids import id_of
from shardwheel.records import View
from shardwheel.service import Health
from shardwheel.store.dag_resolve import resolve
from shardwheel.store.dag_start import start_runs
from shardwheel.store.tenant_pool import TenantPool
from shardwheel.tokens import Verifier, secret_keys, tenant_token
from tests.integration.api.cluster import FIRST, Cluster

DAG: dict[str, Any] = {
    "name": "etl",
    "tasks": [
        {"key": "extract", "task": "work"},
        {"key": "load", "task": "email.send", "depends_on": ["extract"]},
    ],
}
# These are the cluster's, and nobody's own.
OF_CLUSTER = ("/shards", "/partitions", "/wheel", "/alerts", "/rebalance", "/pools")
OF_ONE = [route for route in ROUTES if "{id}" in route.path and not route.path.startswith(OF_CLUSTER)]
SECRET = "a secret of tests that is long enough"


def token(tenant: str = "acme", role: str = "admin", tasks: Iterable[str] = ()) -> str:
    return tenant_token(
        SECRET,
        tenant=tenant,
        role=role,
        name="ann",
        expires_at_s=int(time.time()) + 600,
        issuer="shardwheel",
        audience="shardwheel",
        tasks=tuple(tasks),
    )


class Rig:
    """`call` speaks for a tenant; `poked` holds the partitions whose owners were told of a change."""

    def __init__(self, dsn: str, url: str, cluster: Cluster) -> None:
        self.dsn = dsn
        self.cluster = cluster
        self.client = httpx.Client(base_url=url, timeout=30, trust_env=False)
        self.poked: list[int] = []
        self.view: View | None = None
        self.health = Health()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        tenant: str = "acme",
        role: str = "admin",
        tasks: Iterable[str] = (),
        **more: Any,
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {token(tenant, role, tasks)}"} | more.pop("headers", {})
        request = self.client.build_request(method, PREFIX + path, json=body, headers=headers, **more)
        # What streams has no end: its head will do.
        answer = self.client.send(request, stream=path.startswith("/events"))
        if answer.is_success and path.startswith("/events"):
            answer.close()
        else:
            answer.read()
        return answer

    def job(self, tenant: str = "acme", **fields: Any) -> dict[str, Any]:
        answer = self.call("POST", "/jobs", {"task": "work", "cron": "0 9 * * *"} | fields, tenant=tenant)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def execution(self, tenant: str = "acme", **fields: Any) -> str:
        job = self.job(tenant, **fields)
        return str(self.call("POST", f"/jobs/{job['id']}:trigger", tenant=tenant).json()["execution_id"])

    def letter(self, tenant: str = "acme", task: str = "work", of: str | None = None) -> str:
        """A dead letter (of this execution), as settling would leave it."""
        execution_id, letter_id = of or self.execution(tenant, task=task), str(uuid.uuid4())
        with psycopg.connect(self.dsn) as conn:
            conn.execute(
                """INSERT INTO shardwheel.dead_letters (dead_letter_id, tenant_id, partition, execution_id,
                          job_id, task, params, job, origin, scheduled_at, attempt, failures, crashes, reason)
                   SELECT %s, tenant_id, partition, execution_id, job_id, %s, '{}', '{}', origin,
                          scheduled_at, 1, 1, 0, 'fatal'
                     FROM shardwheel.executions WHERE execution_id = %s""",
                [letter_id, task, execution_id],
            )
        return letter_id

    def dag(self, tenant: str = "acme", **fields: Any) -> dict[str, Any]:
        answer = self.call("POST", "/dags", DAG | fields, tenant=tenant)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def ended(self, outcome: str, of: str = "shardwheel_dag_runs_total") -> float:
        """How many DAG runs ended so, as the API's own metrics say."""
        name = f'{of}{{outcome="{outcome}"}}'
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def run(self, dag_id: str, tenant: str = "acme", **wish: Any) -> str:
        """A run that was triggered and has begun, as the claim would begin it."""
        run_id = str(self.call("POST", f"/dags/{dag_id}:trigger", wish, tenant=tenant).json()["run_id"])
        with psycopg.connect(self.dsn) as conn:
            conn.execute(
                "UPDATE shardwheel.executions SET state = 'running' WHERE execution_id = %s", [run_id]
            )
            start_runs(conn, [id_of(run_id)])
        return run_id

    def end_task(self, run_id: str, key: str, state: str = "dead") -> None:
        """A task of a run ends, as settling would end it."""
        with psycopg.connect(self.dsn) as conn:
            row = conn.execute(
                """UPDATE shardwheel.executions AS x SET state = %s FROM shardwheel.jobs AS j
                    WHERE x.dag_run_id = %s AND j.job_id = x.job_id AND j.task_key = %s
                   RETURNING uuid_send(j.job_id)""",
                [state, run_id, key],
            ).fetchone()
            assert row is not None
            resolve(conn, [Ended(id_of(run_id), row[0], None, state, None)])

    def ids(self, path: str, tenant: str) -> dict[str, str]:
        """Things that this tenant has (or the cluster, or nobody's own), for the parameters of a path."""
        if "{run}" in path:
            dag_id = str(self.dag(tenant)["id"])
            return {"id": dag_id, "run": self.run(dag_id, tenant), "task": "extract"}
        if "{parent_id}" in path:
            root_id = str(self.job(tenant)["id"])
            parent_id = str(self.job(tenant, cron=None, parents=[root_id])["id"])
            child = self.job(tenant, cron=None, parents=[root_id, parent_id])
            return {"id": str(child["id"]), "parent_id": parent_id}
        if "{id}" not in path:
            return {"name": "work"}
        kinds: dict[str, Callable[[str], str]] = {
            "/jobs": lambda tenant: str(self.job(tenant)["id"]),
            "/dags": lambda tenant: str(self.dag(tenant)["id"]),
            "/dag-runs": lambda tenant: self.run(str(self.dag(tenant)["id"]), tenant),
            "/partitions": lambda tenant: "17",
            "/executions": self.execution,
            "/dead-letters": self.letter,
            "/alerts": lambda tenant: self.alert(str(uuid.uuid4())),
            "/shards": lambda tenant: FIRST,
        }
        (make,) = [make for start, make in kinds.items() if path.startswith(start)]
        return {"id": make(tenant)}

    def path(self, path: str, tenant: str) -> str:
        """A route's path with the ids of such things."""
        for name, value in self.ids(path, tenant).items():
            path = path.replace(f"{{{name}}}", value)
        return path

    def everything(self, tenant: str) -> list[Any]:
        """All that a tenant has, as its rows say."""
        with psycopg.connect(self.dsn) as conn:
            return conn.execute(
                """SELECT to_jsonb(j) FROM shardwheel.jobs AS j WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(x) FROM shardwheel.executions AS x WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(v) FROM shardwheel.dag_versions AS v WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(r) FROM shardwheel.dag_runs AS r WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(d) FROM shardwheel.dead_letters AS d WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(e) FROM shardwheel.dag_edges AS e WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(w) FROM shardwheel.work_rows AS w WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(k) FROM shardwheel.idempotency_keys AS k WHERE tenant_id = %(t)s
                   UNION ALL SELECT to_jsonb(a) FROM shardwheel.audit AS a WHERE tenant_id = %(t)s""",
                {"t": tenant},
            ).fetchall()

    def alert(self, subject: str) -> str:
        """An open alert, as the watcher would leave it."""
        with psycopg.connect(self.dsn) as conn:
            row = conn.execute(
                """INSERT INTO shardwheel.alerts (rule, subject, severity, value, sentence, remedy)
                   VALUES ('oldest_due', %s, 'warning', 41.5, 'It is late.', 'Look.')
                   RETURNING alert_id::text""",
                [subject],
            ).fetchone()
        assert row is not None
        return str(row[0])


@contextmanager
def served(dsn: str, lag: Callable[[str], int | None] = unknown_lag) -> Iterator[Rig]:
    listener = open_socket("127.0.0.1", 0)
    cluster = Cluster()
    rig = Rig(dsn, f"http://{address_of_socket(listener)}", cluster)
    pool = TenantPool(dsn, name="test", size=4)
    desk = open_desk(
        pool,
        poke=rig.poked.extend,
        look=lambda: rig.view,
        steering=CoordinatorSteering(cluster.errand),
        health=rig.health,
        is_stopping=lambda: False,
        lag=lag,
    )
    verifier = Verifier("HS256", "shardwheel", "shardwheel")
    app = make_app(desk, Gatekeeper(verifier, secret_keys([SECRET]), now_s=time.time))
    server = uvicorn_for(app)
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()
    try:
        yield rig
    finally:
        rig.client.close()
        server.should_exit = True
        thread.join()
        pool.close()
        cluster.close()
