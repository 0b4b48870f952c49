"""How the verbs that steer a cluster reach it: over the API, and straight on etcd when the API is down.

Both ways ask for the same things and show the same rows; which of them it was is said on standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from shardwheel.client.calls import PREFIX
from shardwheel.commands.calling import Api
from shardwheel.commands.context import current_settings, found_stack
from shardwheel.commands.reach import Reach, look_for_api, url_of
from shardwheel.commands.verbs import Terminal
from shardwheel.errors import ShardwheelError, UnavailableError

if TYPE_CHECKING:
    from shardwheel.commands.cluster import Cluster

T = TypeVar("T")
LOOK_S = 0.3
WAIT_S = 300.0
# An API that says nothing for so long is down to whoever can ask etcd instead.
FROZEN_S = 5.0

ShardId = Annotated[str, typer.Argument(help="The shard's id, as `shardctl shard list` shows it.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Return when it is done.")]
WaitLimitOption = Annotated[
    float, typer.Option("--limit-s", min=0.1, help="With --wait: for how long at most.")
]


def reached(at: Terminal, over_api: Callable[[Api], T], on_etcd: Callable[[Cluster], Awaitable[T]]) -> T:
    """Asking twice is asking once, so what the API may have heard is simply asked of etcd again."""
    reason = "no API is named"
    reach = look_for_api(at.said)
    if reach is not None:
        try:
            return over_api(Api(reach, timeout_s=FROZEN_S))
        except UnavailableError as error:
            if not _knows_its_etcd(at, reach):
                raise
            reason = str(error)
    sys.stderr.write(f"shardctl: {reason}; asking etcd itself\n")
    # The edges take longer to load than the API to answer.
    from shardwheel.commands.cluster import with_cluster

    return with_cluster(at.said.data, on_etcd)


def _knows_its_etcd(at: Terminal, reach: Reach) -> bool:
    """Whoever names an API means that cluster. The etcd that the settings find may be another one's: behind
    an address that was typed, or where that of a `dev` fills the gap which the settings leave."""
    endpoints = current_settings(at.said.data).etcd_endpoints
    stack = found_stack(at.said.data)
    is_of_dev = stack is not None and [*endpoints] == [*stack.settings.get("etcd_endpoints", ())]
    is_its_own = stack is not None and reach.url.rstrip("/").removesuffix(PREFIX) == url_of(stack)
    return at.said.api is None and bool(endpoints) and (is_its_own or not is_of_dev)


def wait_for(api: Api, done: Callable[[], bool], what: str, limit_s: float) -> None:
    """Look until it is so. After the time limit say where the cluster stands, and why."""
    give_up_at_s = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > give_up_at_s:
            found: dict[str, Any] = api.get("/rebalance")
            hint = f"; {found['remedy']}" if found["remedy"] else ""
            stands = f"{found['state']}, {found['reason']}{hint}"
            raise ShardwheelError(f"{what}: not within {limit_s:g} s: {stands}")
        time.sleep(LOOK_S)
