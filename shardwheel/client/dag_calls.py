"""Calls about DAGs and their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from shardwheel.client.calls import Calls, fields, part, words
from shardwheel.client.dag_answers import Dag, DagRun, DagTriggered
from shardwheel.client.method import Listing, listing, method
from shardwheel.client.posted import Time
from shardwheel.client.script import Script


class DagCalls(Calls):
    @method
    def create_dag(self, dag: Mapping[str, Any], *, idempotency_key: str | None = None) -> Script[Dag]:
        """Store a DAG with all its tasks, as docs/dags.md has it: whole, or not at all."""
        body = self._keyed({**dag, **fields(idempotency_key=idempotency_key)})
        return self._ask("POST", "/dags", Dag, body=body)

    @listing
    def dags(
        self,
        *,
        state: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        q: str | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
    ) -> Listing[Dag]:
        """DAGs without their tasks, oldest first; deleted ones only by `state="deleted"`."""
        query = words(state=state, task=task, tag=tag, q=q, from_=from_, to=to)
        return Listing("/dags", query, Dag, limit)

    @method
    def get_dag(self, dag_id: str) -> Script[Dag]:
        """A DAG in its latest version, with its tasks."""
        return self._ask("GET", f"/dags/{part(dag_id)}", Dag)

    @method
    def update_dag(self, dag_id: str, changes: Mapping[str, Any]) -> Script[Dag]:
        """Change these fields, as a new version; None takes one away, `tasks` are all of them. Not sent again
        if it may have been done: somebody else's edit may have come between."""
        return self._ask("PATCH", f"/dags/{part(dag_id)}", Dag, body=changes, repeatable=False)

    @method
    def delete_dag(self, dag_id: str) -> Script[Dag]:
        """Nothing of the DAG starts any more. Said twice, the same."""
        return self._ask("DELETE", f"/dags/{part(dag_id)}", Dag)

    @method
    def pause_dag(self, dag_id: str) -> Script[Dag]:
        """Nothing of the DAG starts but runs that are triggered. Said twice, the same."""
        return self._ask("POST", f"/dags/{part(dag_id)}:pause", Dag, body={})

    @method
    def resume_dag(self, dag_id: str) -> Script[Dag]:
        """Let it go on, with the tasks that were held. Said twice, the same."""
        return self._ask("POST", f"/dags/{part(dag_id)}:resume", Dag, body={})

    @method
    def trigger_dag(
        self, dag_id: str, params: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Script[DagTriggered]:
        """Run it now, paused or not, with these params over those of each task; the answer's `id` is the
        run's. The same key is the same run."""
        body = self._keyed(fields(params=params, idempotency_key=idempotency_key))
        return self._ask("POST", f"/dags/{part(dag_id)}:trigger", DagTriggered, body=body)

    @listing
    def dag_runs(
        self,
        dag_id: str,
        *,
        state: str | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
    ) -> Listing[DagRun]:
        """The runs of a DAG without their tasks, the latest scheduled time first."""
        return Listing(f"/dags/{part(dag_id)}/runs", words(state=state, from_=from_, to=to), DagRun, limit)

    @method
    def get_dag_run(self, dag_id: str, run_id: str) -> Script[DagRun]:
        """A run, begun or not, with what became of each task."""
        return self._ask("GET", _run(dag_id, run_id), DagRun)

    @method
    def find_dag_run(self, run_id: str) -> Script[DagRun]:
        """The same by the run's id alone: its `dag_id` says whose it is."""
        return self._ask("GET", f"/dag-runs/{part(run_id)}", DagRun)

    @method
    def wait_dag_run(self, dag_id: str, run_id: str, timeout: float | None = None) -> Script[DagRun]:
        """Wait until a run is over, however it ended; look at its `state`. `NotOverError` (a `TimeoutError`)
        after `timeout` seconds."""
        return self._until_over(_run(dag_id, run_id), DagRun, f'client.explain("{run_id}")', timeout)

    @method
    def rerun_dag_run(self, dag_id: str, run_id: str, tasks: Sequence[str] | None = None) -> Script[DagRun]:
        """Let a run go on from its failed tasks, or from those named by key. Said twice, the same."""
        return self._ask("POST", f"{_run(dag_id, run_id)}:rerun", DagRun, body=fields(tasks=tasks))

    @method
    def cancel_dag_run(self, dag_id: str, run_id: str) -> Script[DagRun]:
        """Nothing more of a run begins, and what runs is asked to stop. Said twice, the same."""
        return self._ask("POST", f"{_run(dag_id, run_id)}:cancel", DagRun, body={})

    @method
    def force_complete(self, dag_id: str, run_id: str, task: str, output: Any = None) -> Script[DagRun]:
        """Say that a task of a run is done: its children go on as if it had answered `output`."""
        path = f"{_run(dag_id, run_id)}/tasks/{part(task)}:force-complete"
        return self._ask("POST", path, DagRun, body={"output": output})

    @method
    def skip_task(
        self, dag_id: str, run_id: str, task: str, *, children: Literal["run", "skip"] = "run"
    ) -> Script[DagRun]:
        """Leave a task of a run out: its children run without it, or are skipped as well."""
        path = f"{_run(dag_id, run_id)}/tasks/{part(task)}:skip"
        return self._ask("POST", path, DagRun, body={"children": children})


def _run(dag_id: str, run_id: str) -> str:
    return f"/dags/{part(dag_id)}/runs/{part(run_id)}"
