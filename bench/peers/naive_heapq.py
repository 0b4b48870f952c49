"""A thread, a heap, `time.sleep`: what is written in an afternoon. Keeps nothing."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from shardwheel.bench.peers.notes import started
from shardwheel.bench.peers.peer import Peer
from shardwheel.bench.peers.work import Once, Plan

_NAP_S = 0.001


class Heap(Peer):
    package = ""
    settings = "one thread, looks each millisecond"
    cannot: ClassVar = {"restart": "keeps nothing: every job is gone with the process"}
    durable = False
    inside = True

    def serve(self, plans: Sequence[Plan]) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, Plan | None]] = []
        threading.Thread(target=self._run, daemon=True).start()

    def add_once(self, jobs: Sequence[Once]) -> None:
        with self._lock:
            for number, due_s in jobs:
                heapq.heappush(self._heap, (due_s, number, None))

    def enqueue(self, numbers: Sequence[int]) -> None:
        now_s = time.time()
        self.add_once([Once(number, now_s) for number in numbers])

    def add_recurring(self, plans: Sequence[Plan]) -> None:
        now_s = time.time()
        with self._lock:
            for plan in plans:
                heapq.heappush(self._heap, (plan.next_s(now_s), plan.number, plan))

    def _run(self) -> None:
        while True:
            now_s = time.time()
            with self._lock:
                while self._heap and self._heap[0][0] <= now_s:
                    due_s, number, plan = heapq.heappop(self._heap)
                    started(number)
                    if plan is not None:
                        heapq.heappush(self._heap, (due_s + plan.period_s, number, plan))
            time.sleep(_NAP_S)
