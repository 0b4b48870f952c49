"""Answers about jobs, remembered for half a second: many wait for one job by asking again and again.

By tenant and id, so that nobody gets another tenant's. What is changed through this process is forgotten at
once; what another process or a shard changed shows half a second later at most. An answer is kept from when
its reading began, not from when it ended: one that was under way during a change may still be stored after
it, but it is not older than that half second either, however long it took.
"""

from __future__ import annotations

from collections.abc import Callable

KEPT_S = 0.5
MOST = 10_000
# A job may have 64 KiB of params: so many of them would be more than the process should hold.
MOST_BYTES = 32 * 1024 * 1024


class Remembered:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._answers: dict[tuple[str, bytes], tuple[float, bytes]] = {}
        self._bytes = 0

    def now_s(self) -> float:
        """Ask before reading: an answer is as old as that."""
        return self._now_s()

    def get(self, tenant: str, job_id: bytes) -> bytes | None:
        kept_until_s, answer = self._answers.get((tenant, job_id), (0.0, b""))
        return answer if self._now_s() < kept_until_s else None

    def keep(self, tenant: str, job_id: bytes, answer: bytes, begun_at_s: float) -> None:
        self.forget(tenant, job_id)
        if len(self._answers) >= MOST or self._bytes + len(answer) > MOST_BYTES:
            self._answers.clear()
            self._bytes = 0
        self._answers[tenant, job_id] = begun_at_s + KEPT_S, answer
        self._bytes += len(answer)

    def forget(self, tenant: str, job_id: bytes) -> None:
        _, answer = self._answers.pop((tenant, job_id), (0.0, b""))
        self._bytes -= len(answer)
