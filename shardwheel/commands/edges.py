"""From settings to edges: the one place where a process connects its rooms to the servers."""

from __future__ import annotations

from collections.abc import Mapping

from shardwheel.etcd import Etcd
from shardwheel.kafka import Kafka
from shardwheel.settings import Settings
from shardwheel.store.pool import Pool
from shardwheel.tls import DoorTls, Tls, door_tls


def open_etcd(settings: Settings) -> Etcd:
    return Etcd(
        settings.etcd_endpoints,
        cluster=settings.cluster,
        tls=Tls(ca=settings.etcd_ca, cert=settings.etcd_cert, key=settings.etcd_key),
        user=settings.etcd_user,
        password=settings.etcd_password,
    )


def open_kafka(settings: Settings, limit_s: float = 10.0) -> Kafka:
    return Kafka(settings.kafka_bootstrap, settings.kafka_settings, limit_s=limit_s)


def open_results_kafka(settings: Settings, limit_s: float = 10.0) -> Kafka:
    bootstrap, more = settings.results_kafka
    return Kafka(bootstrap, more, limit_s=limit_s)


def open_pool(settings: Settings, name: str, size: int, planner: Mapping[str, str] | None = None) -> Pool:
    return Pool(settings.postgres_dsn, name=name, size=size, planner=planner)


def doors_of(settings: Settings) -> DoorTls:
    """How this process serves its own door and knocks at those of others."""
    return door_tls(Tls(settings.door_ca, settings.door_cert, settings.door_key))
