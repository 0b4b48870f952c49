"""What the cluster is called, asked in the one way that a fenced broker survives us asking."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from shardwheel.errors import UnavailableError
from shardwheel.kafka_admin import _cluster_id


class FencedAdmin:
    """As the driver's admin client beside a fenced broker; what it has no method for may not be called."""

    def __init__(self, cluster_id: str | None, error: KafkaError | None = None) -> None:
        self.cluster_id = cluster_id
        self._error = error

    def list_topics(self, timeout: float) -> FencedAdmin:
        if self._error is not None:
            raise KafkaException(self._error)
        return self


def cluster_id_of(admin: Any) -> str:
    return _cluster_id(admin, limit_s=1)


def test_a_cluster_that_is_not_known_is_out_of_reach_and_never_a_name() -> None:
    assert cluster_id_of(FencedAdmin("c1")) == "c1"
    for admin in (FencedAdmin(None), FencedAdmin("c1", KafkaError(KafkaError._PARTIAL))):
        with pytest.raises(UnavailableError, match=r"^Kafka: "):
            cluster_id_of(admin)
