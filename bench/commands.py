"""`shardctl bench …`: the benchmarks as commands."""

from __future__ import annotations

import typer

app = typer.Typer(help="Measure: each benchmark starts what it needs.", no_args_is_help=True)
