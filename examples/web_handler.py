"""A web handler that stores a user and enqueues a task in one transaction: both, or neither.

Run it: `SHARDWHEEL_POSTGRES_DSN=… uvicorn web_handler:app` in this folder.
"""

from __future__ import annotations

import os
from typing import Any

import psycopg
from litestar import Litestar, post
from litestar.params import JSONBody

from shardwheel import Client

DSN = os.environ.get("SHARDWHEEL_POSTGRES_DSN", "")
client = Client()


@post("/users", sync_to_thread=True)
def sign_up(data: JSONBody[dict[str, Any]]) -> dict[str, Any]:
    with psycopg.connect(DSN) as conn:
        conn.execute("INSERT INTO users (email) VALUES (%s)", [data["email"]])
        job = client.enqueue("welcome", {"to": data["email"]}, conn=conn)
    return {"job": job.id, "run": job.execution_id}


app = Litestar([sign_up])
