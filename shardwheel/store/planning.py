"""How PostgreSQL plans what a transaction asks of it: by key, once a session, or anew for what was given.

For a few rows to plan takes longer than to do it. To prepare a statement is not enough: the server compares
the plan that it would keep with those that it makes for the values at hand, and of a table with many months
it finds the latter cheaper, each time (a claim and its settlement: 1.8 ms of planning in 3.4 ms of work).
And a plan that it keeps from when the tables were small may go through all of a table until that is analyzed.

    plan_by_key(conn)      prepared statements, from here on: planned once, everything found by its key
    plan_anew(conn)        back again, for what joins many rows with many

A plan that is kept must not leave out months as it runs: what locks rows by it, and finds that somebody
changes one meanwhile, ended PostgreSQL 18.4 with a segmentation fault (test_scuffle: in every second run).

Either holds until the transaction ends. A statement for many rows is not prepared, and needs neither, unless
it follows on something for few.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from shardwheel.store.sql import sql


def plan_by_key(conn: Connection[Any]) -> None:
    conn.execute(sql("plan_by_key"), prepare=True)


def plan_anew(conn: Connection[Any]) -> None:
    conn.execute(sql("plan_anew"), prepare=True)
