"""`shardctl`: the front door of the command line. Nouns and verbs live in `commands`, `compose`, `bench`.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused (conflict, unsafe), 5 out of reach.
"""

from __future__ import annotations

import sys

import typer

from shardwheel.bench.commands import app as bench_app
from shardwheel.commands.alerts import app as alerts_app
from shardwheel.commands.api import api
from shardwheel.commands.audit import app as audit_app
from shardwheel.commands.dag import app as dag_app
from shardwheel.commands.dag_hands import cancel, force_complete, rerun, skip
from shardwheel.commands.dlq import app as dlq_app
from shardwheel.commands.doctor import doctor
from shardwheel.commands.execution import app as execution_app
from shardwheel.commands.explain import explain
from shardwheel.commands.job import app as job_app
from shardwheel.commands.job_changes import backfill_job, next_times, update_job
from shardwheel.commands.migrate import migrate
from shardwheel.commands.partition import app as partition_app
from shardwheel.commands.rebalance import app as rebalance_app
from shardwheel.commands.rebase import rebase
from shardwheel.commands.replay import replay
from shardwheel.commands.results import results
from shardwheel.commands.shard import app as shard_app
from shardwheel.commands.shards import drain_shard, list_shards, show_shard, undrain_shard
from shardwheel.commands.task import app as task_app
from shardwheel.commands.token import app as token_app
from shardwheel.commands.worker import worker
from shardwheel.compose.commands import app as dev_app
from shardwheel.errors import ConflictError, NotFoundError, ShardwheelError, UnavailableError, UsageError

app = typer.Typer(
    name="shardctl",
    help="Shardwheel: a sharded job scheduler. Start with `shardctl dev`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dev_app, name="dev")
app.add_typer(job_app, name="job")
app.add_typer(execution_app, name="execution")
app.add_typer(dlq_app, name="dlq")
app.add_typer(audit_app, name="audit")
job_app.command("update")(update_job)
job_app.command("next")(next_times)
job_app.command("backfill")(backfill_job)
app.add_typer(task_app, name="task")
app.add_typer(dag_app, name="dag")
dag_app.command("force-complete")(force_complete)
dag_app.command("skip")(skip)
dag_app.command("rerun")(rerun)
dag_app.command("cancel")(cancel)
app.add_typer(shard_app, name="shard")
shard_app.command("list")(list_shards)
shard_app.command("show")(show_shard)
shard_app.command("drain")(drain_shard)
shard_app.command("undrain")(undrain_shard)
app.add_typer(partition_app, name="partition")
app.add_typer(rebalance_app, name="rebalance")
app.command()(replay)
app.command()(rebase)
app.command()(worker)
app.command()(results)
app.add_typer(alerts_app, name="alerts")
app.command()(explain)
app.command()(api)
app.add_typer(token_app, name="token")
app.add_typer(bench_app, name="bench")
app.command()(migrate)
app.command()(doctor)

_EXIT_CODES: tuple[tuple[type[ShardwheelError], int], ...] = (
    (NotFoundError, 3),
    (ConflictError, 4),
    (UsageError, 2),
    (UnavailableError, 5),
    (ShardwheelError, 1),
)


def exit_code_of(error: ShardwheelError) -> int:
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


def main() -> None:
    """The console script: one line on standard error for what we raise on purpose, a traceback for a bug."""
    try:
        app()
    except ShardwheelError as error:
        sys.stderr.write(f"shardctl: {error}\n")
        sys.exit(exit_code_of(error))


if __name__ == "__main__":
    main()
