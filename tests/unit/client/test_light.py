"""Who only writes handlers, or only speaks HTTP, does not load what others need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"httpx", "psycopg", "confluent_kafka", "numpy", "litestar", "typer"}


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("import shardwheel", set[str]()),
        ("from shardwheel import Fatal, Retryable, handler", set[str]()),
        ("from shardwheel import AsyncClient, Client", {"httpx"}),
    ],
)
def test_an_import_loads_no_driver_that_it_has_no_use_for(line: str, needed: set[str]) -> None:
    code = f"import sys; {line}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert HEAVY & set(loaded.split()) == needed
