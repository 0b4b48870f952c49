"""Calls about jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack

from shardwheel.client.answers import Answer, Backfilled, Job, ResumedJob, Triggered
from shardwheel.client.calls import Calls, fields, part, words
from shardwheel.client.method import Listing, listing, method
from shardwheel.client.posted import Duration, JobEdit, JobFields, NewJob, RunFields, Time
from shardwheel.client.script import Script
from shardwheel.errors import UsageError

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

    OwnConnection = Connection[Any] | AsyncConnection[Any]


class Jobs(Answer, frozen=True, kw_only=True):
    items: tuple[Job, ...]


class Times(Answer, frozen=True, kw_only=True):
    items: tuple[datetime, ...]


class JobCalls(Calls):
    @method
    def create_job(
        self,
        task: str,
        params: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        conn: OwnConnection | None = None,
        **more: Unpack[JobFields],
    ) -> Script[Job]:
        """Store a job: `create_job("email.send", {"to": "a@b.c"}, cron="0 9 * * 1-5")`.

        With `conn`, your own psycopg connection, it is a row of your transaction: there when you commit, and
        gone when you roll back. No HTTP then; its tenant is the client's, and your login must be allowed to
        store jobs for it (`shardctl producer grant`).
        """
        posted = fields(task=task, params=params, idempotency_key=idempotency_key, **more)
        return self._create(posted, conn)

    @method
    def enqueue(
        self,
        task: str,
        params: Mapping[str, Any] | None = None,
        *,
        delay: Duration | None = None,
        run_at: Time | None = None,
        idempotency_key: str | None = None,
        conn: OwnConnection | None = None,
        **more: Unpack[RunFields],
    ) -> Script[Job]:
        """Run a task once: now, after `delay` (seconds, "5m", a timedelta) or at `run_at`.

        `wait(job.execution_id)` waits for its run: the id is known before it runs. With `conn` the job is
        stored as by `create_job`.
        """
        for name in ("cron", "every", "parents"):
            if more.pop(name, None) is not None:  # type: ignore[misc]
                problem = f"{name}: enqueue runs a task once; use create_job"
                raise UsageError(problem, field=name)
        once = {"delay": delay, "run_at": run_at, "idempotency_key": idempotency_key}
        return self._create(fields(task=task, params=params, **once, **more), conn)

    @method
    def create_jobs(self, jobs: Sequence[NewJob]) -> Script[list[Job]]:
        """Store up to 1,000 jobs in one request, all or none; in their order."""
        made: Jobs = yield from self._ask(
            "POST", "/jobs:batch", Jobs, body=[self._keyed(job) for job in jobs]
        )
        return list(made.items)

    @listing
    def jobs(
        self,
        *,
        state: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        q: str | None = None,
        parent: str | None = None,
        limit: int | None = None,
    ) -> Listing[Job]:
        """Jobs, oldest first; deleted ones only by `state="deleted"`. `q`: a part of the name or the task;
        `parent`: those that run after this job."""
        return Listing("/jobs", words(state=state, task=task, tag=tag, q=q, parent=parent), Job, limit)

    @method
    def get_job(self, job_id: str) -> Script[Job]:
        """A job as it stands."""
        return self._ask("GET", f"/jobs/{part(job_id)}", Job)

    @method
    def update_job(self, job_id: str, **changes: Unpack[JobEdit]) -> Script[Job]:
        """Change these fields; None takes one away. Not sent again if it may have been done: somebody else's
        edit may have come between."""
        return self._ask("PATCH", f"/jobs/{part(job_id)}", Job, body=changes, repeatable=False)

    @method
    def delete_job(self, job_id: str) -> Script[Job]:
        """Nothing of the job starts any more. Said twice, the same."""
        return self._ask("DELETE", f"/jobs/{part(job_id)}", Job)

    @method
    def pause_job(self, job_id: str) -> Script[Job]:
        """Nothing of the job starts but what is triggered. Said twice, the same."""
        return self._ask("POST", f"/jobs/{part(job_id)}:pause", Job, body={})

    @method
    def resume_job(
        self,
        job_id: str,
        *,
        missed: Literal["skip", "one", "all"] = "skip",
        idempotency_key: str | None = None,
    ) -> Script[ResumedJob]:
        """Let it go on; `missed` says which times of the pause run after all."""
        body = self._keyed(fields(missed=missed, idempotency_key=idempotency_key))
        return self._ask("POST", f"/jobs/{part(job_id)}:resume", ResumedJob, body=body)

    @method
    def trigger_job(
        self, job_id: str, params: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Script[Triggered]:
        """Run it now, paused or not, with these params in place of its own. The same key is the same run."""
        body = self._keyed(fields(params=params, idempotency_key=idempotency_key))
        return self._ask("POST", f"/jobs/{part(job_id)}:trigger", Triggered, body=body)

    @method
    def backfill_job(
        self, job_id: str, from_: Time, to: Time, *, idempotency_key: str | None = None
    ) -> Script[Backfilled]:
        """Run the scheduled times from `from_` to `to` that did not run."""
        body = self._keyed(fields(from_=from_, to=to, idempotency_key=idempotency_key))
        return self._ask("POST", f"/jobs/{part(job_id)}:backfill", Backfilled, body=body)

    @method
    def add_dependency(self, job_id: str, parent_id: str) -> Script[Job]:
        """Let it run after this parent too, from its root's next run on. Said twice, the same."""
        return self._ask("PUT", f"/jobs/{part(job_id)}/dependencies/{part(parent_id)}", Job)

    @method
    def remove_dependency(self, job_id: str, parent_id: str) -> Script[Job]:
        """Let it no longer run after this parent. Said twice, the same."""
        return self._ask("DELETE", f"/jobs/{part(job_id)}/dependencies/{part(parent_id)}", Job)

    @method
    def next_times(self, job_id: str, n: int = 10) -> Script[list[datetime]]:
        """The coming scheduled times; none while the job is not active."""
        times: Times = yield from self._ask("GET", f"/jobs/{part(job_id)}/next", Times, query={"n": n})
        return list(times.items)

    def _create(self, posted: dict[str, Any], conn: OwnConnection | None) -> Script[Job]:
        if conn is None:
            return self._ask("POST", "/jobs", Job, body=self._keyed(posted))
        # Who only speaks HTTP needs no database driver.
        from shardwheel.client.own_transaction import store

        return store(conn, tenant=self._tenant, posted=posted)
