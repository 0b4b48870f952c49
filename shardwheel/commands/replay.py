"""`shardctl replay`: fire a span of time again, after Kafka lost data that no server noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from shardwheel.commands.cluster import Cluster, with_cluster
from shardwheel.commands.context import DataOption
from shardwheel.errors import ConflictError, UsageError
from shardwheel.output import Format, FormatOption, agreed, print_thing, shown_time
from shardwheel.partition import PARTITIONS
from shardwheel.store.steering import set_back
from shardwheel.times import parse_time

app = typer.Typer(add_completion=False)


@app.command()
def replay(
    since: Annotated[
        str,
        typer.Option(
            "--since", help="From when on, such as 2026-11-20T09:00:00Z; `floor`: from where needed."
        ),
    ],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="This one only; may be given several times.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data: DataOption = None,
    output: FormatOption = Format.table,
) -> None:
    """Publish everything again that was due since then. What has run already is dropped at the claim.

    Safe while shards run: each owner takes its partitions anew, from that time on. Times that are longer past
    than a job's misfire_grace_s go by its misfire policy. After a loss that Shardwheel sees (another Kafka
    cluster, topics made anew, another timeline of PostgreSQL) it does this by itself.

    Examples:

        shardctl replay --since floor --yes

        shardctl replay --since 2026-11-20T09:00:00Z --partition 17 --yes
    """
    since_ms = None if since == "floor" else parse_time(since, "since")
    partitions = sorted(set(partition or range(PARTITIONS)))
    if not 0 <= partitions[0] <= partitions[-1] < PARTITIONS:
        raise UsageError(f"partition: give 0 to {PARTITIONS - 1}", field="partition")
    question = f"Fire {len(partitions)} partitions again since {since}?"
    if not yes and not agreed(question):
        raise ConflictError("nothing was replayed: say --yes, or answer y at the terminal")

    async def work(cluster: Cluster) -> dict[str, Any]:
        return await _replayed(cluster, partitions, since_ms)

    print_thing(with_cluster(data, work), output)


async def _replayed(cluster: Cluster, partitions: Sequence[int], since_ms: int | None) -> dict[str, Any]:
    now_ms = int(await cluster.store.now_ms())
    if since_ms is not None and since_ms > now_ms:
        raise UsageError(
            f"since: {shown_time(since_ms)} is yet to come; give a time that is past", field="since"
        )
    gone_back = await cluster.pool.run(set_back, partitions, since_ms)
    return {
        "partitions": len(gone_back),
        "since": None if since_ms is None else shown_time(since_ms),
        "from": shown_time(min(back.is_ms for back in gone_back)) if gone_back else None,
        "through": shown_time(max(back.was_ms for back in gone_back)) if gone_back else None,
    }
