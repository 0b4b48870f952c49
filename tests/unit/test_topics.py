"""The topics' names are public: contract.md gives them."""

from __future__ import annotations

from shardwheel.job import Pool, Priority
from shardwheel.topics import job_topic, job_topics, result_topics


def test_the_topics_are_those_of_the_contract() -> None:
    assert job_topic(Pool.SHORT, Priority.CRITICAL) == "shardwheel.jobs.short.critical"
    specs = job_topics(8)
    assert len(specs) == len({spec.name for spec in specs}) == 3 * 4 + 1
    assert specs[-1].name == "shardwheel.dead-letters"
    assert [spec.name for spec in result_topics(8)] == ["shardwheel.results"]
    assert {spec.topic_partitions for spec in [*specs, *result_topics(8)]} == {8}
