"""etcd, as `Leases`: who is alive and who owns what.

Through etcd's own HTTP/JSON gateway with httpx under trio, because no Python driver of it is fit for use
(docs/decisions/0002). Every call has a time limit, fails with `UnavailableError`, and works again at the
first call after the server's return. Nothing is cached here and nothing decided: what a failed call means
is the caller's business.

    async with Etcd(["http://127.0.0.1:2379"], cluster="main") as etcd:
        lease = await etcd.grant(3)
        await etcd.txn([Compare("owners/7", 0)], [Put("owners/7", b"shard-a1", lease)])
        snapshot = await etcd.range("owners/")
        async with etcd.watch("owners/", snapshot.revision + 1) as batches:
            async for events in batches: ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import trio

from shardwheel.errors import NotFoundError
from shardwheel.etcd_codec import (
    NOT_FOUND,
    OUT_OF_RANGE,
    KeySpace,
    RangeAnswer,
    RefusedError,
    WireKeyValue,
    decode_grant,
    decode_keep_alive,
    decode_range,
    decode_revoke,
    decode_status,
    decode_txn,
)
from shardwheel.etcd_gateway import Effect, Gateway
from shardwheel.etcd_watch import Watch
from shardwheel.lease_rules import KeyElection, check_from_revision, check_ttl, check_txn
from shardwheel.ports import Compare, Delete, Election, KeyEvent, Put, Snapshot, TxnResult
from shardwheel.tls import NO_FILES, Tls

__all__ = ["Etcd", "Tls"]

PAGE_KEYS = 1_000


class Etcd:
    """One cluster's keys in etcd. Safe to share between tasks; close it, or use `async with`."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        cluster: str,
        tls: Tls = NO_FILES,
        user: str = "",
        password: str = "",
        time_limit_s: float = 2.0,
        watch_silence_s: float = 5.0,
    ) -> None:
        self._keys = KeySpace(cluster)
        self._gateway = Gateway(endpoints, tls=tls, user=user, password=password)
        self._time_limit_s = time_limit_s
        self._watch_silence_s = watch_silence_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._gateway.close()

    async def version(self) -> str:
        """The server's version, from whichever endpoint answers."""
        answer = await self._gateway.call(
            "/v3/maintenance/status", {}, decode_status, Effect.READS, self._limit_at()
        )
        return answer.version

    async def range(self, prefix: str) -> Snapshot:
        limit_at = self._limit_at()
        while True:
            try:
                return await self._read_pages(prefix, limit_at)
            except RefusedError as refused:
                # The revision of the first page was compacted away before the last: start over.
                if refused.code != OUT_OF_RANGE:
                    raise

    async def txn(self, compare: Sequence[Compare], then: Sequence[Put | Delete]) -> TxnResult:
        check_txn(compare, then)
        request = self._keys.txn_request(compare, then)
        try:
            answer = await self._gateway.call(
                "/v3/kv/txn", request, decode_txn, Effect.ONCE, self._limit_at()
            )
        except RefusedError as refused:
            if refused.code == NOT_FOUND:
                raise NotFoundError("the lease is gone: grant a new one", field="lease") from refused
            raise
        return TxnResult(answer.succeeded, answer.header.revision)

    async def grant(self, ttl_s: int) -> int:
        check_ttl(ttl_s)
        answer = await self._gateway.call(
            "/v3/lease/grant", {"TTL": ttl_s}, decode_grant, Effect.ONCE, self._limit_at()
        )
        return answer.id

    async def keep_alive(self, lease: int) -> bool:
        return await self._gateway.call(
            "/v3/lease/keepalive", {"ID": lease}, decode_keep_alive, Effect.REPEATABLE, self._limit_at()
        )

    async def revoke(self, lease: int) -> None:
        try:
            await self._gateway.call(
                "/v3/lease/revoke", {"ID": lease}, decode_revoke, Effect.REPEATABLE, self._limit_at()
            )
        except RefusedError as refused:
            if refused.code != NOT_FOUND:
                raise

    @asynccontextmanager
    async def watch(
        self, prefix: str, from_revision: int
    ) -> AsyncIterator[AsyncIterator[Sequence[KeyEvent] | None]]:
        check_from_revision(from_revision)
        watch = Watch(self._gateway, self._keys, prefix, from_revision, self._watch_silence_s)
        try:
            yield watch
        finally:
            await watch.close()

    def election(self, key: str, lease: int, value: bytes) -> Election:
        return KeyElection(self, key, lease, value)

    def _limit_at(self) -> float:
        return trio.current_time() + self._time_limit_s

    async def _read_pages(self, prefix: str, limit_at: float) -> Snapshot:
        """All pages at the first one's revision, so that together they are one moment."""
        first, after_last = self._keys.wire_range(prefix)
        request: dict[str, Any] = {"key": first, "range_end": after_last, "limit": PAGE_KEYS}
        page = await self._read_page(request, limit_at)
        revision = page.header.revision
        found: list[WireKeyValue] = page.kvs
        while page.more:
            request |= {"key": found[-1].key + b"\0", "revision": revision}
            page = await self._read_page(request, limit_at)
            found += page.kvs
        return Snapshot(tuple(self._keys.item(wire) for wire in found), revision)

    async def _read_page(self, request: dict[str, Any], limit_at: float) -> RangeAnswer:
        return await self._gateway.call("/v3/kv/range", request, decode_range, Effect.READS, limit_at)
