"""The examples run: here, the README's handler in a worker's hands."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import trio_test

from shardwheel.execution import Claimed
from shardwheel.handler import import_handlers, registry
from shardwheel.wire import Outcome
from shardwheel.workers.run import Running
from tests.unit.workers.rig import workshop

EXAMPLES = Path(__file__).parents[2] / "examples"


@trio_test
async def test_the_readmes_handler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import_handlers("handlers")
    handler = registry.get("email.send")
    assert handler is not None
    claimed = Claimed(
        execution_id=bytes(16),
        job_id=bytes(16),
        partition=0,
        tenant_id="t",
        task="email.send",
        params=b'{"to": "a@b.c"}',
        scheduled_ms=0,
        due_ms=0,
        attempt=1,
        failures=0,
        timeout_ms=30_000,
        claim_token=bytes(16),
    )
    with trio.CancelScope() as scope:
        running = Running(claimed, 0, trio.current_time(), trio.current_time)
        end = await running.call(handler, workshop(), scope)
    assert end.outcome is Outcome.SUCCEEDED
    assert capsys.readouterr().out == "to a@b.c attempt 1\n"
