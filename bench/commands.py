"""`shardctl bench …`: one command a benchmark. Each file beside this one measures; here it is called."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from shardwheel.bench import campaign_commands, pauses
from shardwheel.bench import claim as claim_bench
from shardwheel.bench import coldstart as coldstart_bench
from shardwheel.bench import dag as dag_bench
from shardwheel.bench import e2e as e2e_bench
from shardwheel.bench import enqueue as enqueue_bench
from shardwheel.bench import failover as failover_bench
from shardwheel.bench import fire as fire_bench
from shardwheel.bench import holds as holds_bench
from shardwheel.bench import isolated as isolated_bench
from shardwheel.bench import move as move_bench
from shardwheel.bench import shards as shards_bench
from shardwheel.bench import sleepers as sleepers_bench
from shardwheel.bench import tick as tick_bench
from shardwheel.bench import wheel as wheel_bench
from shardwheel.bench.options import JsonOption, PlotOption, SecondsOption, answer, draw, parse_counts
from shardwheel.bench.report import say
from shardwheel.logs import set_up_logs

app = typer.Typer(
    help="Measure: progress on standard error, the answer on standard output.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def bench() -> None:
    """Measure: progress on standard error, the answer on standard output."""
    set_up_logs("error", "", role="bench")


@app.command()
def wheel(
    as_json: JsonOption = False,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long to turn wheels, all sizes together.")
    ] = 40.0,
    plot: PlotOption = None,
) -> None:
    """Time, touches and memory of the timing wheel, beside heapq, croniter and cronsim.

    Examples:

        shardctl bench wheel

        shardctl bench wheel --json --plot wheel.png
    """
    result = wheel_bench.bench_wheel(seconds, say)
    answer(result, as_json, wheel_bench.print_result)
    draw(result, plot, wheel_bench.picture)


@app.command()
def claim(as_json: JsonOption = False, seconds: SecondsOption = 20.0, plot: PlotOption = None) -> None:
    """Claims and settles a second on a durable PostgreSQL, in batches of 100 and 500, on one connection.

    Example:

        shardctl bench claim --json --plot claim.png
    """
    result = claim_bench.bench_claim(seconds, say)
    answer(result, as_json, claim_bench.print_result)
    draw(result, plot, claim_bench.picture)


@app.command()
def fire(as_json: JsonOption = False, seconds: SecondsOption = 40.0, plot: PlotOption = None) -> None:
    """Fires a second from the wheel to Kafka's acknowledgement, beside a bare produce loop.

    Example:

        shardctl bench fire --json --plot fire.png
    """
    result = fire_bench.bench_fire(seconds, say)
    answer(result, as_json, fire_bench.print_result)
    draw(result, plot, fire_bench.picture)


@app.command()
def tick(
    as_json: JsonOption = False,
    held: Annotated[int, typer.Option(min=1, help="Jobs of the mix in the wheels.")] = tick_bench.HELD,
    rate: Annotated[float, typer.Option(min=0.1, help="Fires a second.")] = tick_bench.RATE_PER_S,
    seconds: SecondsOption = 30.0,
    plot: PlotOption = None,
) -> None:
    """From a fire's time to the broker's acknowledgement; missed and doubled fires counted in the topics.

    Example:

        shardctl bench tick --held 333000 --rate 2000 --json --plot tick.png
    """
    result = tick_bench.bench_tick(held, rate, seconds, say)
    answer(result, as_json, tick_bench.print_result)
    draw(result, plot, tick_bench.picture)


@app.command()
def coldstart(
    as_json: JsonOption = False,
    jobs: Annotated[str, typer.Option(help="Numbers of jobs, separated by commas.")] = "333000,1000000",
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long to repeat; each number of jobs at least once.")
    ] = 60.0,
    plot: PlotOption = None,
) -> None:
    """From nothing to the first correct fire of a shard that loads all partitions, and what a job weighs.

    Example:

        shardctl bench coldstart --jobs 333000,1000000 --json
    """
    result = coldstart_bench.bench_coldstart(parse_counts(jobs), seconds, say)
    answer(result, as_json, coldstart_bench.print_result)
    draw(result, plot, coldstart_bench.picture)


@app.command()
def e2e(
    as_json: JsonOption = False,
    jobs: Annotated[int, typer.Option(min=10, help="One-shot jobs due at once.")] = e2e_bench.JOBS,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long jobs come one after the other, for the latencies.")
    ] = e2e_bench.SECONDS,
    plot: PlotOption = None,
) -> None:
    """Due, fired, claimed, run (no-op), settled: by real processes, two of which are killed on the way.

    Example:

        shardctl bench e2e --json --plot e2e.png
    """
    result = e2e_bench.bench_e2e(jobs, seconds, say)
    answer(result, as_json, e2e_bench.print_result)
    draw(result, plot, e2e_bench.picture)


@app.command()
def dag(
    as_json: JsonOption = False,
    chain: Annotated[int, typer.Option(min=1, help="Tasks of a chain.")] = dag_bench.CHAIN,
    items: Annotated[int, typer.Option(min=1, max=10_000, help="Items of a fan-out.")] = dag_bench.ITEMS,
    runs: Annotated[int, typer.Option(min=1, help="Runs of 50 tasks at once.")] = dag_bench.RUNS,
    plot: PlotOption = None,
) -> None:
    """A chain, a fan-out with its join, and many runs at once: what edges cost, and whether any run is stuck.

    Example:

        shardctl bench dag --json
    """
    result = dag_bench.bench_dag(chain, items, runs, say)
    answer(result, as_json, dag_bench.print_result)
    draw(result, plot, dag_bench.picture)


@app.command()
def isolated(
    as_json: JsonOption = False,
    runs: Annotated[
        int, typer.Option(min=1, help="Isolated no-ops, one after the other.")
    ] = isolated_bench.RUNS,
    plot: PlotOption = None,
) -> None:
    """What a start of an isolated handler costs, beside Python started anew.

    Example:

        shardctl bench isolated --json
    """
    result = isolated_bench.bench_isolated(runs, say)
    answer(result, as_json, isolated_bench.print_result)
    draw(result, plot, isolated_bench.picture)


@app.command()
def sleepers(
    as_json: JsonOption = False,
    count: Annotated[
        int, typer.Option(min=1, help="Executions that sleep at once.")
    ] = sleepers_bench.SLEEPERS,
    seconds: Annotated[
        float, typer.Option(min=1, max=55, help="How long each sleeps.")
    ] = sleepers_bench.SECONDS,
    plot: PlotOption = None,
) -> None:
    """One worker that holds many sleeping executions at once: its memory, and whether all stay alive.

    Example:

        shardctl bench sleepers --count 10000 --json
    """
    result = sleepers_bench.bench_sleepers(count, seconds, say)
    answer(result, as_json, sleepers_bench.print_result)
    draw(result, plot, sleepers_bench.picture)


HeldOption = Annotated[int, typer.Option(min=1, help="Jobs of the mix, held by all shards together.")]


@app.command()
def holds(
    as_json: JsonOption = False,
    held: Annotated[int, typer.Option(min=100, help="How many are held.")] = holds_bench.HELD,
    jobs: Annotated[int, typer.Option(min=10, help="Due at once in a round.")] = holds_bench.JOBS,
    rounds: Annotated[
        int, typer.Option(min=1, help="Before, and again beside what is held.")
    ] = holds_bench.ROUNDS,
    plot: PlotOption = None,
) -> None:
    """The rate of the whole loop, with nothing held and beside a flood that an open breaker holds.

    Example:

        shardctl bench holds --held 100000 --json
    """
    result = holds_bench.bench_holds(held, jobs, rounds, say)
    answer(result, as_json, holds_bench.print_result)
    draw(result, plot, holds_bench.picture)


class How(StrEnum):
    kill = "kill"
    stop = "stop"


@app.command()
def failover(
    as_json: JsonOption = False,
    standby: Annotated[int, typer.Option(min=0, max=1, help="1: every partition is mirrored.")] = 1,
    how: Annotated[How, typer.Option(help="SIGKILL, or SIGSTOP.")] = How.kill,
    leader: Annotated[bool, typer.Option("--leader", help="Hit the shard that leads.")] = False,
    held: HeldOption = shards_bench.HELD,
    seconds: SecondsOption = pauses.SECONDS,
    plot: PlotOption = None,
) -> None:
    """Three shards; one is killed or stopped. For how long do its partitions pause, and is anything lost?

    Examples:

        shardctl bench failover --standby 1 --json

        shardctl bench failover --standby 0 --how stop --held 30000
    """
    result = failover_bench.bench_failover(held, seconds, standby, how.value, leader, say)
    answer(result, as_json, failover_bench.print_result)
    draw(result, plot, pauses.picture)


@app.command()
def move(
    as_json: JsonOption = False,
    held: HeldOption = shards_bench.HELD,
    seconds: SecondsOption = pauses.SECONDS,
    plot: PlotOption = None,
) -> None:
    """Three shards; one is drained, then taken back. For how long do its partitions pause?

    Example:

        shardctl bench move --json
    """
    result = move_bench.bench_move(held, seconds, say)
    answer(result, as_json, move_bench.print_result)
    draw(result, plot, pauses.picture)


@app.command()
def enqueue(as_json: JsonOption = False, seconds: SecondsOption = 66.0, plot: PlotOption = None) -> None:
    """Jobs stored and read a second through the API, singly and by batch; when a shard has them.

    Example:

        shardctl bench enqueue --json --plot enqueue.png
    """
    result = enqueue_bench.bench_enqueue(seconds, say)
    answer(result, as_json, enqueue_bench.print_result)
    draw(result, plot, enqueue_bench.picture)


app.command("peers")(campaign_commands.peers)
app.command("herd")(campaign_commands.herd_of)
app.command("growth")(campaign_commands.growth)
app.command("quick")(campaign_commands.quick_of)
app.command("all")(campaign_commands.all_of)
app.command("page")(campaign_commands.page_of)
