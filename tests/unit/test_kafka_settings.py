"""A deployment chooses the driver's settings, but for those that a promise rests on."""

from __future__ import annotations

from shardwheel.kafka_settings import client_settings, consumer_settings, producer_settings


def test_a_deployment_chooses_anything_but_what_a_promise_rests_on() -> None:
    chosen = {"security.protocol": "SASL_SSL", "linger.ms": "7", "acks": "1", "message.timeout.ms": "9"}
    client = client_settings("broker:9092", {**chosen, "bootstrap.servers": "elsewhere"})
    producer = producer_settings(client, 100)
    assert producer["security.protocol"] == "SASL_SSL"
    assert producer["linger.ms"] == "7"
    assert (producer["acks"], producer["message.timeout.ms"]) == ("all", 0)
    assert producer["bootstrap.servers"] == "broker:9092"
    client["enable.auto.commit"] = "true"
    assert consumer_settings(client, "group")["enable.auto.commit"] is False
