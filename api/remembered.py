"""Answers about jobs, remembered for half a second: many wait for one job by asking again and again.

By tenant and id, so that nobody gets another tenant's. What is changed through this process is forgotten at
once; what another process or a shard changed shows half a second later at most. (A reading that was under way
during a change may still be stored after it: for that half second, no longer.)
"""

from __future__ import annotations

from collections.abc import Callable

KEPT_S = 0.5
MOST = 10_000


class Remembered:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._answers: dict[tuple[str, bytes], tuple[float, bytes]] = {}

    def get(self, tenant: str, job_id: bytes) -> bytes | None:
        kept_until_s, answer = self._answers.get((tenant, job_id), (0.0, b""))
        return answer if self._now_s() < kept_until_s else None

    def keep(self, tenant: str, job_id: bytes, answer: bytes) -> None:
        if len(self._answers) >= MOST:
            self._answers.clear()
        self._answers[tenant, job_id] = self._now_s() + KEPT_S, answer

    def forget(self, tenant: str, job_id: bytes) -> None:
        self._answers.pop((tenant, job_id), None)
