"""Bodies as they come in: what they become in memory counts too."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator

import msgspec
import pytest

from shardwheel.api import limits
from shardwheel.api.limits import Intake, decoded_size
from shardwheel.errors import UnavailableError

SIZE = 60_000


def repeated(begin: str, item: str, end: str) -> bytes:
    count = SIZE // (len(item) + 1)
    return (begin + ",".join(item.replace("#", f"{n:05}") for n in range(count)) + end).encode()


GREEDY = {
    "lists": repeated("[", "[]", "]"),
    "objects": repeated("[", "{}", "]"),
    "full objects": repeated("[", '{"a":1}', "]"),
    "nested": repeated("[", '{"a":{"b":{"c":[]}}}', "]"),
    "names": repeated("{", '"#":0', "}"),
    "texts": repeated("[", '"#"', "]"),
    "numbers": repeated("[", "1#", "]"),
    "floats": repeated("[", "1.#", "]"),
    "a text": repeated('["', "x", '"]'),
}


@pytest.mark.parametrize("body", GREEDY.values(), ids=GREEDY)
def test_no_json_becomes_more_than_is_told(body: bytes) -> None:
    tracemalloc.start()
    value = msgspec.json.decode(body)
    became, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value and became <= decoded_size(body) <= 30 * len(body)


async def chunks(body: bytes) -> AsyncIterator[bytes]:
    yield body


def test_bodies_that_become_too_much_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = GREEDY["lists"], b'{"task":"work"}'
    monkeypatch.setattr(limits, "ALL_DECODED_BYTES", decoded_size(large) + 2 * decoded_size(small))

    async def main() -> None:
        intake = Intake()

        async def take(body: bytes) -> None:
            async with intake.body({}, chunks(body), SIZE * 2):
                pass

        async with intake.body({}, chunks(large), SIZE * 2):
            await take(small)
            with pytest.raises(UnavailableError, match="too many large requests"):
                await take(large)
        # What was held is given back.
        await take(large)

    asyncio.run(main())


def test_one_alone_is_never_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALL_DECODED_BYTES", 1)

    async def main() -> None:
        async with Intake().body({}, chunks(GREEDY["objects"]), SIZE * 2) as body:
            assert body == GREEDY["objects"]

    asyncio.run(main())
