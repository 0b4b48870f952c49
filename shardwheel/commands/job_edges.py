"""`shardctl job depend`: a job runs after another one, or no longer does."""

from __future__ import annotations

from typing import Annotated

import typer

from shardwheel.commands.job import JobId
from shardwheel.commands.verbs import Terminal


def depend(
    at: Terminal,
    job_id: JobId,
    on: Annotated[str, typer.Option("--on", metavar="JOB", help="The job that it runs after.")],
    remove: Annotated[bool, typer.Option("--remove", help="It no longer does.")] = False,
) -> None:
    """Let a job run after another one too: both are tasks of one DAG, or children of one job. Runs under way
    keep the edges that they began with. A cycle is refused and spelled out. Said twice, the same.

    Examples:

        shardctl job depend $JOB --on $PARENT

        shardctl job depend $JOB --on $PARENT --remove
    """
    edge = "/jobs/{}/dependencies/{}"
    at.show(at.api.delete(edge, job_id, on) if remove else at.api.put(edge, job_id, on))
