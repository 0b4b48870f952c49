"""Settings: precedence, types, refusal by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.errors import UsageError
from shardwheel.posting import parse_posting
from shardwheel.settings import load_settings


def test_flags_beat_environment_beats_file_beats_stack(tmp_path: Path) -> None:
    file = tmp_path / "shardwheel.toml"
    file.write_text('cluster = "file"\nzone = "file"\nlog_level = "file"\n')
    settings = load_settings(
        flags={"cluster": "flag", "zone": None},
        environ={"SHARDWHEEL_CLUSTER": "environment", "SHARDWHEEL_ZONE": "environment", "HOME": "/"},
        file=file,
        stack={"cluster": "stack", "log_level": "stack", "postgres_dsn": "stack"},
    )
    assert (settings.cluster, settings.zone) == ("flag", "environment")
    assert (settings.log_level, settings.postgres_dsn) == ("file", "stack")


def test_lists_mappings_and_numbers_from_the_environment() -> None:
    settings = load_settings(
        environ={
            "SHARDWHEEL_ETCD_ENDPOINTS": "http://a:1, http://b:2",
            "SHARDWHEEL_KAFKA_SETTINGS": "security.protocol=SSL,ssl.ca.location=/ca.pem",
            "SHARDWHEEL_TOPIC_PARTITIONS": "12",
        }
    )
    assert settings.etcd_endpoints == ("http://a:1", "http://b:2")
    assert settings.kafka_settings == {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}
    assert settings.topic_partitions == 12


def test_results_live_with_the_jobs_unless_told_otherwise() -> None:
    assert load_settings(flags={"kafka_bootstrap": "a:1"}).results_kafka == ("a:1", {})
    both = load_settings(flags={"kafka_bootstrap": "a:1", "results_bootstrap": "b:2"})
    assert both.results_kafka == ("b:2", {})


@pytest.mark.parametrize(
    ("environ", "field", "words"),
    [
        ({"SHARDWHEEL_KAFKA_BOOTSTRP": "x"}, "kafka_bootstrp", "did you mean 'kafka_bootstrap'"),
        ({"SHARDWHEEL_TOPIC_PARTITIONS": "many"}, "topic_partitions", "not a whole number"),
        ({"SHARDWHEEL_TOPIC_PARTITIONS": "0"}, "topic_partitions", "give 1 to 256"),
        ({"SHARDWHEEL_KAFKA_SETTINGS": "oops"}, "kafka_settings", "key=value"),
        ({"SHARDWHEEL_LOG_FORMAT": "xml"}, "log_format", "neither pretty nor json"),
        ({"SHARDWHEEL_CLUSTER": "a/b"}, "cluster", "without a slash"),
    ],
)
def test_a_bad_value_names_the_field_and_the_remedy(environ: dict[str, str], field: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_settings(environ=environ)
    assert caught.value.field == field


def test_a_file_with_an_unknown_key_a_wrong_type_or_no_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shardwheel.toml"
    for text, words in (("zon = 1", "did you mean 'zone'"), ("zone = 1", "zone"), ("zone", "not valid TOML")):
        file.write_text(text)
        with pytest.raises(UsageError, match=words):
            load_settings(file=file)
    with pytest.raises(UsageError, match="no such file"):
        load_settings(file=tmp_path / "absent.toml")


def test_without_a_secret_no_job_may_ask_for_callbacks() -> None:
    body = {"task": "a", "callback_url": "https://example.org/done"}
    with pytest.raises(UsageError, match=r"callback_url.*set callback_secret") as caught:
        parse_posting(body, load_settings().callback_rules)
    assert caught.value.field == "callback_url"
    parse_posting(body, load_settings(flags={"callback_secret": "s"}).callback_rules)
    parse_posting({"task": "a"}, load_settings().callback_rules)
