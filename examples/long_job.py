"""A long job that goes on where it was: it stores a checkpoint after each page, and says how far it is."""

from __future__ import annotations

from typing import Any

import trio

from shardwheel import Client, handler

PAGES = 6


@handler("pages.index", pool="long")
async def index(ctx: Any, params: dict[str, Any]) -> int:
    done = await ctx.load_checkpoint() or 0
    for page in range(done, PAGES):
        await trio.sleep(60)
        if page == 3 and ctx.first_attempt:
            raise ConnectionError("the wiki is away")
        await ctx.checkpoint(page + 1)
        ctx.progress(100 * (page + 1) / PAGES, f"page {page + 1}")
    ctx.log("indexed", pages=PAGES - done)
    return PAGES


def main(client: Client) -> None:
    job = client.enqueue("pages.index", pool="long", timeout_s=3600)
    run = client.wait(job, timeout=3600)
    print(run.state, "in attempt", run.attempt)
    for line in client.logs(run.id):
        print(line.attempt, line.text)


if __name__ == "__main__":
    with Client() as client:
        main(client)
