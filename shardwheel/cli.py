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
from shardwheel.commands.importing import app as import_app
from shardwheel.commands.job import app as job_app
from shardwheel.commands.job_edges import depend
from shardwheel.commands.job_files import apply, export
from shardwheel.commands.job_times import next_times
from shardwheel.commands.migrate import migrate
from shardwheel.commands.partition import app as partition_app
from shardwheel.commands.producer import app as producer_app
from shardwheel.commands.profile import app as profile_app
from shardwheel.commands.rebalance import app as rebalance_app
from shardwheel.commands.rebase import rebase
from shardwheel.commands.replay import replay
from shardwheel.commands.results import results
from shardwheel.commands.said import at_first
from shardwheel.commands.shard import app as shard_app
from shardwheel.commands.shards import drain_shard, list_shards, show_shard, undrain_shard
from shardwheel.commands.task import app as task_app
from shardwheel.commands.token import app as token_app
from shardwheel.commands.top import top
from shardwheel.commands.verbs import verb
from shardwheel.commands.worker import worker
from shardwheel.compose.commands import app as dev_app
from shardwheel.errors import (
    BadTokenError,
    ConflictError,
    ForbiddenError,
    LimitedError,
    NotFoundError,
    ShardwheelError,
    UnavailableError,
    UsageError,
)

app = typer.Typer(
    name="shardctl",
    help="Shardwheel: a sharded job scheduler. Start with `shardctl dev`.",
    no_args_is_help=True,
    callback=at_first,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dev_app, name="dev")
app.add_typer(job_app, name="job")
app.add_typer(execution_app, name="execution")
app.add_typer(dlq_app, name="dlq")
app.add_typer(audit_app, name="audit")
verb(job_app, "next")(next_times)
verb(job_app)(depend)
verb(job_app)(export)
verb(job_app)(apply)
app.add_typer(task_app, name="task")
app.add_typer(dag_app, name="dag")
verb(dag_app, "force-complete")(force_complete)
verb(dag_app)(skip)
verb(dag_app)(rerun)
verb(dag_app)(cancel)
app.add_typer(shard_app, name="shard")
verb(shard_app, "list")(list_shards)
verb(shard_app, "show")(show_shard)
verb(shard_app, "drain")(drain_shard)
verb(shard_app, "undrain")(undrain_shard)
app.add_typer(partition_app, name="partition")
app.add_typer(rebalance_app, name="rebalance")
app.command()(replay)
app.command()(rebase)
app.command()(worker)
app.command()(results)
app.add_typer(alerts_app, name="alerts")
verb(app)(explain)
verb(app)(top)
app.add_typer(import_app, name="import")
app.command()(api)
app.add_typer(token_app, name="token")
app.add_typer(producer_app, name="producer")
app.add_typer(profile_app, name="profile")
app.add_typer(bench_app, name="bench")
app.command()(migrate)
app.command()(doctor)

_EXIT_CODES: tuple[tuple[type[ShardwheelError], int], ...] = (
    (NotFoundError, 3),
    (ConflictError, 4),
    (BadTokenError, 4),
    (ForbiddenError, 4),
    (LimitedError, 4),
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
