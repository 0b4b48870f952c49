"""A DAG: list files, convert each of them, add up. Its handlers, its definition, and a run of it."""

from __future__ import annotations

from typing import Any

from shardwheel import Client, handler


@handler("files.list")
async def list_files(ctx: Any, params: dict[str, Any]) -> list[str]:
    return [f"{params['bucket']}/{name}.csv" for name in ("a", "b", "c")]


@handler("files.convert")
async def convert(ctx: Any, params: dict[str, Any]) -> int:
    return len(params["item"])


@handler("files.report")
async def report(ctx: Any, params: dict[str, Any]) -> dict[str, Any]:
    sizes = (await ctx.inputs())["convert"]
    return {"files": len(sizes), "bytes": sum(sizes)}


NIGHTLY = {
    "name": "nightly",
    "cron": "0 2 * * *",
    "tasks": [
        {"key": "list", "task": "files.list", "params": {"bucket": "in"}},
        {"key": "convert", "task": "files.convert", "depends_on": ["list"], "fan_out": True},
        {"key": "report", "task": "files.report", "depends_on": ["convert"]},
    ],
}


def main(client: Client) -> None:
    dag = client.create_dag(NIGHTLY)
    begun = client.trigger_dag(dag.id)
    run = client.wait_dag_run(dag.id, begun.id, timeout=60)
    print(run.state, run.task("report").output)


if __name__ == "__main__":
    with Client() as client:
        main(client)
