"""`shardctl bench peers | herd | growth | quick | all | page`: comparisons, and runs of many benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shardwheel.bench import campaign, herd, page, quick
from shardwheel.bench import growth as growth_bench
from shardwheel.bench.options import JsonOption, PlotOption, answer, draw, parse_counts
from shardwheel.bench.peers import answer as peers_answer
from shardwheel.bench.peers.peer import PEERS
from shardwheel.bench.peers.run import bench_peers, peers_of
from shardwheel.bench.peers.work import Size, rows_of
from shardwheel.bench.report import say

_RESULTS = Path(__file__).resolve().parent / "results"
IntoOption = Annotated[Path, typer.Option("--into", help="Folder of the runs' JSON.", file_okay=False)]


def peers(
    as_json: JsonOption = False,
    peers: Annotated[
        str, typer.Option("--peers", help=f"Which, separated by commas: {', '.join(PEERS)}.")
    ] = "",
    only: Annotated[
        str,
        typer.Option(
            "--only",
            help="Rows: a (herd), b (pace), c (recurring), d (restart), e (once and repeated).",
        ),
    ] = "",
    scale: Annotated[
        float, typer.Option(min=0.0001, max=10, help="Of all numbers of jobs: 1 is 20,000 and 100,000.")
    ] = 1.0,
    limit: Annotated[
        float, typer.Option("--limit", min=5, help="Seconds for one row of one peer.")
    ] = Size().limit_s,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            help="File for each row as it is done: a run that broke goes on from it.",
            dir_okay=False,
        ),
    ] = None,
    plot: PlotOption = None,
) -> None:
    """The same work on the schedulers that one would pick instead, each alone, on the same PostgreSQL.

    Examples:

        shardctl bench peers --json

        shardctl bench peers --peers shardwheel,procrastinate --only a,b --scale 0.05
    """
    try:
        chosen, rows = peers_of(peers.split(",")), rows_of(only)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    report = bench_peers(chosen, rows, Size(limit_s=limit).scaled(scale), say, keep)
    answer(report, as_json, peers_answer.print_result)
    draw(report, plot, peers_answer.picture)


def herd_of(
    as_json: JsonOption = False,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs that are due at nine.")] = herd.JOBS,
    seconds: Annotated[float, typer.Option(min=0.5, help="How long to fire from nine on.")] = herd.SECONDS,
    plot: PlotOption = None,
) -> None:
    """Very many jobs that are all due at 09:00: how late each is, until the broker has acknowledged it.

    Example:

        shardctl bench herd --jobs 200000 --json --plot herd.png
    """
    result = herd.bench_herd(jobs, seconds, say)
    answer(result, as_json, herd.print_result)
    draw(result, plot, herd.picture)


def growth(
    as_json: JsonOption = False,
    jobs: Annotated[str, typer.Option(help="Numbers of jobs held, separated by commas.")] = ",".join(
        map(str, growth_bench.HELD)
    ),
    plot: PlotOption = None,
) -> None:
    """What one fire, one create and one takeover cost, by how many jobs are held.

    Example:

        shardctl bench growth --jobs 10000,100000 --json
    """
    result = growth_bench.bench_growth(parse_counts(jobs), say)
    answer(result, as_json, growth_bench.print_result)
    draw(result, plot, growth_bench.picture)


def quick_of(
    as_json: JsonOption = False,
    write: Annotated[
        bool, typer.Option("--write-baseline", help="Keep today's ratios as the baseline.")
    ] = False,
) -> None:
    """Today's ratios beside the committed baseline, in under five minutes; fails if one fell by over 30%.

    Examples:

        shardctl bench quick

        shardctl bench quick --write-baseline
    """
    result = quick.bench_quick(say, write=write)
    answer(result, as_json, quick.print_result)
    if result["fallen"]:
        raise typer.Exit(1)


def all_of(
    into: IntoOption = _RESULTS,
    only: Annotated[str, typer.Option("--only", help="Names of runs, separated by commas.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Also what was done today.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only tell what would run, and how long.")] = False,
) -> None:
    """Every benchmark in turn, for a quiet machine; what was done today is skipped. Then the page is written.

    Examples:

        shardctl bench all --plan

        shardctl bench all --into bench/results
    """
    try:
        runs = campaign.chosen(only)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    failed = campaign.run_all(runs, into, again=again, plan=plan, say=say)
    if not plan:
        page_of(into)
    if failed:
        raise typer.Exit(1)


def page_of(into: IntoOption = _RESULTS) -> None:
    """Write docs/benchmarks.md, docs/scale.md and their pictures from the JSON of runs.

    Example:

        shardctl bench page
    """
    for path in page.write_pages(into):
        say(f"wrote {path}")
