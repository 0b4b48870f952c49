"""How the API knows how much of a pool waits in Kafka: asked from a thread, answered in its trio."""

from __future__ import annotations

from shardwheel.commands.api_steering import Errand
from shardwheel.commands.edges import open_kafka
from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.job import Priority
from shardwheel.lag import lag_of
from shardwheel.ports import Leases
from shardwheel.settings import Settings
from shardwheel.topics import job_topic, workers_group

# Somebody waits for an explanation: without Kafka it is vaguer, and still one.
LIMIT_S = 3.0


class KafkaLag:
    def __init__(self, settings: Settings, errand: Errand) -> None:
        self._settings = settings
        self._errand = errand

    def __call__(self, pool: str) -> int | None:
        async def work(leases: Leases) -> int:
            topics = [job_topic(pool, priority) for priority in Priority]
            return await lag_of(open_kafka(self._settings, LIMIT_S), workers_group(pool), topics)

        try:
            return self._errand(work)
        except (UnavailableError, NotFoundError):
            return None
