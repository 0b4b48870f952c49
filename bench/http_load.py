"""Requests over connections that stay open, as fast as the answers come: the load of `bench enqueue`.

A client library would take longer for a request than the API does; so these few lines speak HTTP themselves.
Anything but a success ends the benchmark.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import uvloop

from shardwheel.bench.measure import Latencies


class Target(NamedTuple):
    host: str
    port: int
    token: str

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = (
            f"{method} /api/v1{path} HTTP/1.1\r\nhost: {self.host}\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Measured(NamedTuple):
    p50_ms: float
    p99_ms: float
    per_s: float

    @classmethod
    def of(cls, latencies: Latencies, took_s: float) -> Measured:
        p50_ms, p99_ms = latencies.percentile_ms(50), latencies.percentile_ms(99)
        return cls(round(p50_ms, 2), round(p99_ms, 2), round(latencies.count / took_s, 1))


def load(
    target: Target, requests: Callable[[int], Iterator[bytes]], connections: int, seconds: float
) -> Measured:
    """Send `requests(n)` over the n-th connection, one after the other, for so long."""
    latencies = Latencies()

    async def main() -> float:
        begun_s = time.perf_counter()
        await asyncio.gather(
            *(_converse(target, requests(n), begun_s + seconds, latencies) for n in range(connections))
        )
        return time.perf_counter() - begun_s

    return Measured.of(latencies, uvloop.run(main()))


async def _converse(target: Target, requests: Iterator[bytes], until_s: float, latencies: Latencies) -> None:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        for request in requests:
            sent_s = time.perf_counter()
            writer.write(request)
            await _answer(reader)
            answered_s = time.perf_counter()
            latencies.record((answered_s - sent_s) * 1000)
            if answered_s >= until_s:
                return
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"http/1.1 20"):
        raise RuntimeError(f"the API answered {head[:12]!r}: {body[:300]!r}")
    return body
