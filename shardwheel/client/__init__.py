"""The producer client: everything that the HTTP API does, as methods; and jobs in one's own transaction.

    client = Client("http://127.0.0.1:8080", token=…)
    job = client.create_job("email.send", {"to": "a@b.c"}, cron="0 9 * * 1-5", time_zone="Europe/Berlin")
    run = client.wait(client.enqueue("report.build", {"month": "2026-10"}), timeout=30)

A call is a script (`script.py`): a generator that decides what to send and when to try again. `Client` runs
it in the caller's thread, `AsyncClient` under trio or asyncio; each call is described once, for both.
"""

from __future__ import annotations

from shardwheel.client.asynchronous import AsyncClient
from shardwheel.client.blocking import Client

__all__ = ["AsyncClient", "Client"]
