"""`shardctl bench claim`, tiny: the answer has the fields of the contract."""

from __future__ import annotations

import psycopg
import pytest

from shardwheel.bench.claim import measure_claim, print_result
from shardwheel.bench.stored import entries_of, store
from shardwheel.store import feed
from tests.unit.bench.contract import assert_contract

NOON_MS = 1_795_003_200_000


@pytest.mark.servers
def test_the_gate_is_measured_in_both_batch_sizes(
    migrated_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = measure_claim(migrated_database, 0.1, lambda _: None, jobs=600)
    assert_contract("claim", result)
    for field in ("claims_per_s", "settles_per_s", "bare_inserts_per_s"):
        assert set(result[field]) == {"100", "500"}
        assert all(rate > 0 for rate in result[field].values())
    print_result(result)
    assert "claims a second" in capsys.readouterr().out


@pytest.mark.servers
def test_stored_jobs_load_as_the_entries_they_were(migrated_database: str) -> None:
    entries = list(entries_of(500, NOON_MS))
    assert store(migrated_database, entries) == 500
    with psycopg.connect(migrated_database) as connection:
        loaded = [job for batch in feed.load(connection, range(256)) for job in batch.jobs]
    assert sorted(loaded) == sorted(entries)
