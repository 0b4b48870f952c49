"""Calls about what runs and what was given up: executions, task types, dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from shardwheel.client.answers import (
    Answer,
    DeadLetter,
    Dealt,
    Execution,
    Explanation,
    Job,
    LogLine,
    Redriven,
    TaskType,
)
from shardwheel.client.calls import Calls, fields, part, words
from shardwheel.client.method import Listing, listing, method
from shardwheel.client.posted import Time
from shardwheel.client.script import Script
from shardwheel.errors import NotFoundError, UsageError


class Cancelled(Answer, frozen=True, kw_only=True):
    outcome: Literal["cancelled", "already_running", "already_done"]


class RunCalls(Calls):
    @listing
    def executions(
        self,
        job_id: str | None = None,
        *,
        state: str | None = None,
        reason: str | None = None,
        origin: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
    ) -> Listing[Execution]:
        """Executions, of one job or of all, the latest scheduled time first."""
        path = "/executions" if job_id is None else f"/jobs/{part(job_id)}/executions"
        query = words(state=state, reason=reason, origin=origin, task=task, tag=tag, from_=from_, to=to)
        return Listing(path, query, Execution, limit)

    @method
    def get_execution(self, execution_id: str) -> Script[Execution]:
        """An execution with its attempts."""
        return self._ask("GET", f"/executions/{part(execution_id)}", Execution)

    @method
    def wait(self, execution: str | Job, timeout: float | None = None) -> Script[Execution]:
        """Wait until an execution is over, however it ended; look at its `state`.

        By its id, or by the job of an `enqueue`. `NotOverError` (a `TimeoutError`) after `timeout` seconds;
        `NotFoundError` at once if there is no such run and none to come.
        """
        execution_id = execution if isinstance(execution, str) else execution.execution_id
        if execution_id is None:
            raise UsageError("execution: that job runs more than once; wait for one of its executions")
        return self._wait(execution_id, timeout)

    @method
    def cancel(
        self, execution_id: str, *, job_id: str | None = None
    ) -> Script[Literal["cancelled", "already_running", "already_done"]]:
        """Cancel a run; one that has no row yet only if its job is named. Not sent again if it may have been
        done: the second answer would be about the first."""
        path, body = f"/executions/{part(execution_id)}:cancel", fields(job_id=job_id)
        done: Cancelled = yield from self._ask("POST", path, Cancelled, body=body, repeatable=False)
        return done.outcome

    @listing
    def logs(self, execution_id: str, *, attempt: int | None = None) -> Listing[LogLine]:
        """What its handler logged through `ctx.log`, oldest first."""
        return Listing(f"/executions/{part(execution_id)}/logs", words(attempt=attempt), LogLine, paged=False)

    @method
    def explain(self, some_id: str) -> Script[Explanation]:
        """Why an execution, or a job, is as it is, and what to do. Also for a run that has no row yet."""
        return self._ask("GET", f"/executions/{part(some_id)}/explain", Explanation)

    @method
    def explain_job(self, job_id: str) -> Script[Explanation]:
        """When a job runs next, or why it does not; and what is to be said of its latest execution."""
        return self._ask("GET", f"/jobs/{part(job_id)}/explain", Explanation)

    @listing
    def tasks(self) -> Listing[TaskType]:
        """The task types that jobs name, and those that something was set for."""
        return Listing("/tasks", {}, TaskType)

    @method
    def pause_task(self, task: str) -> Script[TaskType]:
        """Hold everything of a task type. Said twice, the same."""
        return self._ask("POST", f"/tasks/{part(task)}:pause", TaskType, body={})

    @method
    def resume_task(self, task: str) -> Script[TaskType]:
        """Let a task type go on. Said twice, the same."""
        return self._ask("POST", f"/tasks/{part(task)}:resume", TaskType, body={})

    @method
    def limit_task(
        self,
        task: str,
        *,
        max_running: int | None = None,
        rate: str | None = None,
        breaker: bool | None = None,
    ) -> Script[TaskType]:
        """Limit a task type, over all workers; what is left out stays. 0 and "none" take a limit away."""
        body = fields(max_running=max_running, rate=rate, breaker=breaker)
        return self._ask("POST", f"/tasks/{part(task)}:limit", TaskType, body=body)

    @listing
    def dead_letters(
        self,
        *,
        state: str | None = None,
        task: str | None = None,
        reason: str | None = None,
        class_: str | None = None,
        job_id: str | None = None,
        tag: str | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
    ) -> Listing[DeadLetter]:
        """Dead letters, latest first: the open ones, if no `state` is given."""
        which = {"task": task, "reason": reason, "class": class_, "job_id": job_id, "tag": tag}
        query = words(state=state, **which, from_=from_, to=to)
        return Listing("/dead-letters", query, DeadLetter, limit)

    @method
    def get_dead_letter(self, letter_id: str) -> Script[DeadLetter]:
        """A dead letter with all that is needed to understand and replay it."""
        return self._ask("GET", f"/dead-letters/{part(letter_id)}", DeadLetter)

    @method
    def redrive(self, letter_id: str, params: Mapping[str, Any] | None = None) -> Script[Redriven]:
        """Run a dead letter again, with these params in place of its own. Said twice, the same execution."""
        path = f"/dead-letters/{part(letter_id)}:redrive"
        return self._ask("POST", path, Redriven, body=fields(params=params))

    @method
    def discard(self, letter_id: str) -> Script[None]:
        """Let a dead letter be. Said twice, the same."""
        yield from self._ask("POST", f"/dead-letters/{part(letter_id)}:discard", Any, body={})

    @method
    def redrive_all(self, /, **which: Any) -> Script[Dealt]:
        """Run the open dead letters again that a filter means: `redrive_all(task="email.send")`, by `task`,
        `reason`, `class_`, `job_id`, `tag`, `from_`, `to`; `all=True` for all of them. Not sent again if it
        may have been done: what failed once more would run once more."""
        return self._deal("redrive", which)

    @method
    def discard_all(self, /, **which: Any) -> Script[Dealt]:
        """Let the open dead letters be that a filter means; it is said as for `redrive_all`."""
        return self._deal("discard", which)

    def _deal(self, verb: str, which: dict[str, Any]) -> Script[Dealt]:
        return self._ask("POST", f"/dead-letters:{verb}", Dealt, body=fields(**which), repeatable=False)

    def _wait(self, execution_id: str, timeout: float | None) -> Script[Execution]:
        path, why = f"/executions/{part(execution_id)}", f'client.explain("{execution_id}")'
        try:
            yield from self._ask("GET", path, Execution)
        except NotFoundError:
            # It may be still to come: its row is made when a worker takes it.
            yield from self._ask("GET", f"{path}/explain", Explanation)
        return (yield from self._until_over(path, Execution, why, timeout))
