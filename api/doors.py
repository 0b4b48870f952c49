"""The shards' own doors, which the API asks for figures that nobody else has. The asyncio half."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import httpx
import msgspec

from shardwheel.errors import UnavailableError
from shardwheel.records import Member
from shardwheel.tls import DoorTls

LIMIT_S = 1.0
# Each looks at every entry of the cluster.
MOST_AT_ONCE = 4


class Counted(msgspec.Struct):
    """What a shard says: how many entries it fires, and how many are due in each bucket."""

    entries: int
    counts: list[int]


class Censuses(NamedTuple):
    """By shard: who answered, and why the others did not."""

    counted: Mapping[str, Counted]
    missing: Mapping[str, str]


class ShardDoors:
    def __init__(self, tls: DoorTls) -> None:
        self._tls = tls
        # No connection is kept: they are few, and shards come and go.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.AsyncClient(trust_env=False, timeout=LIMIT_S, limits=limits, verify=tls.verify)
        self._under_way = 0

    async def censuses(self, members: Iterable[Member], from_ms: int, to_ms: int, bucket_ms: int) -> Censuses:
        """All shards at once; one that does not answer in time is missing."""
        if self._under_way >= MOST_AT_ONCE:
            raise UnavailableError("the wheels are being counted already; try again in a moment")
        self._under_way += 1
        try:
            wish = {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": bucket_ms}
            asked = list(members)
            answers = await asyncio.gather(*(self._census(member.address, wish) for member in asked))
        finally:
            self._under_way -= 1
        found = dict(zip([member.shard_id for member in asked], answers, strict=True))
        return Censuses(
            {shard_id: answer for shard_id, answer in found.items() if isinstance(answer, Counted)},
            {shard_id: answer for shard_id, answer in found.items() if isinstance(answer, str)},
        )

    async def _census(self, address: str, wish: Mapping[str, int]) -> Counted | str:
        """Its answer, or why there is none."""
        try:
            async with asyncio.timeout(LIMIT_S):
                answer = await self._client.post(self._tls.url(address, "/census"), json=wish)
            answer.raise_for_status()
            return msgspec.json.decode(answer.content, type=Counted)
        except TimeoutError:
            return f"it did not answer within {LIMIT_S:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError) as error:
            return str(error) or type(error).__name__
