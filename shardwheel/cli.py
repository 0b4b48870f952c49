"""`shardctl`: the front door of the command line. Nouns and verbs live in `commands`, `compose`, `bench`.

Nothing of them is imported before it is said: see `commands.late`.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused (conflict, unsafe), 5 out of reach.
"""

from __future__ import annotations

import errno
import gc
import os
import sys

import typer

from shardwheel.commands.late import Later, group_of
from shardwheel.commands.said import at_first
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
from shardwheel.output import make_streams_forgiving

_HERE = "On one machine"
_JOBS = "Jobs and their runs"
_CLUSTER = "The cluster"
_SERVICES = "Services, one process each"
_AROUND = "Around it"

COMMANDS = (
    Later(
        "dev",
        "shardwheel.compose.commands",
        "Run PostgreSQL, etcd, Kafka and all services on this machine until Ctrl-C. The data survives.",
        _HERE,
    ),
    Later("job", "shardwheel.commands.job_noun", "Create, look at and steer jobs.", _JOBS),
    Later("dag", "shardwheel.commands.dag_noun", "Create, look at and steer DAGs.", _JOBS),
    Later("execution", "shardwheel.commands.execution", "Look at executions, and cancel them.", _JOBS),
    Later(
        "explain",
        "shardwheel.commands.explain",
        "Say why an execution or a job is late, held, skipped, not fired or given up, and what to do.",
        _JOBS,
    ),
    Later(
        "dlq",
        "shardwheel.commands.dlq",
        "Dead letters: executions that were given up, with all that is needed to replay them.",
        _JOBS,
    ),
    Later("task", "shardwheel.commands.task", "Pause, resume and limit task types.", _JOBS),
    Later(
        "import",
        "shardwheel.commands.importing",
        "Bring jobs over from another scheduler. Nothing of what is read is ever run.",
        _JOBS,
    ),
    Later(
        "top",
        "shardwheel.commands.top",
        "A live view: fires a second, what is held and why, the pools' lag, shards, oldest due, last ends.",
        _CLUSTER,
    ),
    Later(
        "doctor",
        "shardwheel.commands.doctor",
        "Look at every server and at the API. Says what is wrong and what to do; exit code 1 if anything is.",
        _CLUSTER,
    ),
    Later(
        "partition", "shardwheel.commands.partition", "Look at partitions, and move them by hand.", _CLUSTER
    ),
    Later(
        "rebalance",
        "shardwheel.commands.rebalance",
        "Give every shard its share of the partitions, now. What was moved by hand is free to move again.",
        _CLUSTER,
    ),
    Later("audit", "shardwheel.commands.audit", "Who did what to what.", _CLUSTER),
    Later(
        "replay",
        "shardwheel.commands.replay",
        "Publish everything again that was due since then. What has run already is dropped at the claim.",
        _CLUSTER,
    ),
    Later(
        "rebase",
        "shardwheel.commands.rebase",
        "Let shards go on with a dump that was restored into another PostgreSQL. Said twice, the same.",
        _CLUSTER,
    ),
    Later(
        "shard",
        "shardwheel.commands.shard_noun",
        "Run a scheduler shard until SIGTERM, which hands its partitions over.",
        _SERVICES,
    ),
    Later(
        "worker",
        "shardwheel.commands.worker",
        "Run a worker until SIGTERM: then it ends what it holds, and gives back at once what it can't.",
        _SERVICES,
    ),
    Later(
        "results",
        "shardwheel.commands.results",
        "Run a result processor until SIGTERM. Several share the work.",
        _SERVICES,
    ),
    Later(
        "api",
        "shardwheel.commands.api",
        "Run the HTTP API until SIGTERM: then it finishes the requests that are under way.",
        _SERVICES,
    ),
    Later(
        "alerts",
        "shardwheel.commands.alerts",
        "Watch the cluster and tell people what is wrong, until SIGTERM. Of several one watches.",
        _SERVICES,
    ),
    Later(
        "migrate",
        "shardwheel.commands.migrate",
        "Apply the migrations that the database does not have yet.",
        _AROUND,
    ),
    Later("token", "shardwheel.commands.token", "Make tokens for the API.", _AROUND),
    Later(
        "producer",
        "shardwheel.commands.producer",
        "Let applications store jobs in their own transactions (client.enqueue with conn).",
        _AROUND,
    ),
    Later(
        "profile",
        "shardwheel.commands.profile",
        "The clusters that shardwheel.toml knows; --profile NAME chooses one.",
        _AROUND,
    ),
    Later(
        "bench",
        "shardwheel.bench.commands",
        "Measure: progress on standard error, the answer on standard output.",
        _AROUND,
    ),
)

app = typer.Typer(
    name="shardctl",
    cls=group_of(COMMANDS),
    help="Shardwheel: a sharded job scheduler. Start with `shardctl dev`.",
    no_args_is_help=True,
    callback=at_first,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
    # What is imported stays: to look through it for circles again and again took a tenth of a start.
    gc.set_threshold(50_000, 10, 10)
    make_streams_forgiving()
    try:
        _run()
    except ShardwheelError as error:
        sys.stderr.write(f"shardctl: {error}\n")
        sys.exit(exit_code_of(error))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            raise
        # What is left of the answer would be tried once more at the end, and fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.ENOSPC:
            sys.stderr.write(f"shardctl: the answer can't be written ({error.strerror})\n")
        sys.exit(1)


def _run() -> None:
    try:
        app()
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    main()
