"""One's first jobs. In this folder: `shardctl dev --handlers handlers`, which says where its API is; then
`SHARDWHEEL_API_URL=… SHARDWHEEL_TOKEN=… python quick_start.py`.
"""

from __future__ import annotations

from shardwheel import Client


def main(client: Client) -> None:
    job = client.create_job("email.send", {"to": "a@b.c"}, cron="0 9 * * 1-5", time_zone="Europe/Berlin")
    print("next:", [time.isoformat() for time in client.next_times(job.id, 2)])

    once = client.enqueue("email.send", {"to": "d@e.f"}, delay=1.5, idempotency_key="welcome-7")
    run = client.wait(once, timeout=30)
    print("sent:", run.state, "after", run.attempt, "attempt")

    for run in client.executions(task="email.send", state="succeeded", limit=10):
        print(run.id, run.scheduled_at, run.duration_ms, "ms")


if __name__ == "__main__":
    with Client() as client:
        main(client)
