"""What a driver's error means: conflict, lost, unavailable, or the statement's own failure."""

from __future__ import annotations

import psycopg
import pytest

from shardwheel.store.failures import Meaning, meaning_of


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("40001", Meaning.CONFLICT),
        ("40P01", Meaning.CONFLICT),
        ("57014", Meaning.UNAVAILABLE),  # statement_timeout
        ("55P03", Meaning.UNAVAILABLE),  # lock_timeout
        ("53300", Meaning.UNAVAILABLE),  # too many connections
        ("25006", Meaning.LOST),  # no longer the primary
        ("08006", Meaning.UNAVAILABLE),
        ("23505", Meaning.THEIRS),  # unique violation
        ("22012", Meaning.THEIRS),  # division by zero
        ("42P01", Meaning.THEIRS),  # undefined table
        ("P0001", Meaning.THEIRS),  # raised by a function of ours
    ],
)
def test_by_its_code(sqlstate: str, meaning: Meaning) -> None:
    error = psycopg.errors.lookup(sqlstate)("…")
    assert meaning_of(error, closed=False) is meaning
    assert meaning_of(error, closed=True) is Meaning.LOST


def test_an_error_without_a_code_is_the_connection_or_the_program() -> None:
    assert meaning_of(psycopg.OperationalError("consuming input failed"), closed=False) is Meaning.LOST
    assert meaning_of(psycopg.ProgrammingError("no results to fetch"), closed=False) is Meaning.THEIRS
