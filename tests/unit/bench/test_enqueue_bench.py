"""`shardctl bench enqueue`, tiny: the answer has the fields of the contract."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from shardwheel.bench import enqueue
from shardwheel.bench.enqueue import measure_enqueue, picture, print_result
from shardwheel.bench.http_load import Target, load
from shardwheel.compose.dev import open_stack
from shardwheel.compose.services import Wish
from shardwheel.http import Answer, address_of, listen, serve
from shardwheel.settings import Settings
from tests.unit.bench.contract import assert_contract

FIELDS = {
    *("connections", "batch100_p50_ms", "batch100_p99_ms", "batch_jobs_per_s"),
    *("status_p50_ms", "status_p99_ms", "status_per_s", "in_wheel_p99_ms", "in_wheel_without_poke_max_ms"),
    *("bare_insert_per_s", "ratio", "machine", "batch_size", "batch_connections"),
    *("keyed", "keyed_batch_jobs_per_s", "status_of_many", "execution"),
}
LATER = ("keyed", "keyed_batch_jobs_per_s", "status_of_many", "execution")


@pytest.mark.servers
def test_the_fields_of_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueue, "WITHOUT_POKE", 1)

    async def bench() -> enqueue.Report:
        wish = Wish(folder=tmp_path / "stack", settings=Settings(), workers=0)
        async with open_stack(wish, lambda _: None) as stack:
            return await trio.to_thread.run_sync(measure_enqueue, stack, 0.9, lambda _: None, 3)

    result = trio.run(bench)
    assert_contract("enqueue", result)
    assert set(result) == FIELDS
    assert set(result["connections"]) == {"1", "16", "64"}
    assert all(set(one) == {"p50_ms", "p99_ms", "per_s"} for one in result["connections"].values())
    assert all(value > 0 for value in result.values() if not isinstance(value, dict))
    assert min(result["keyed"].values()) > 0 and min(result["status_of_many"].values()) > 0
    print_result(result)
    said = capsys.readouterr().out
    assert "store a job, 16 connections" in said and "read an execution, 1 connections" in said
    # What was kept before there were keys and executions is still shown.
    print_result({name: value for name, value in result.items() if name not in LATER})
    assert "read an execution" not in capsys.readouterr().out
    picture(result, tmp_path / "enqueue.png")
    assert (tmp_path / "enqueue.png").stat().st_size > 1_000


def test_an_answer_that_is_no_success_ends_the_benchmark() -> None:
    async def main() -> None:
        async def refuse(_body: bytes) -> Answer:
            return Answer(503, b"busy")

        listeners = await listen("127.0.0.1", 0)
        host, _, port = address_of(listeners[0]).rpartition(":")
        target = Target(host, int(port), "token")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, {("GET", "/api/v1/jobs"): refuse}, listeners)
            with pytest.raises(RuntimeError, match=r"503.*busy"):
                request = target.request("GET", "/jobs")
                await trio.to_thread.run_sync(load, target, lambda _: iter([request]), 1, 0.1)
            nursery.cancel_scope.cancel()

    trio.run(main)
