"""Whatever is posted as a DAG is taken or refused by field: never an error of another kind."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shardwheel.dag import DAG_TIMING_FIELDS, EXECUTION_FIELDS, parse_dag
from shardwheel.errors import UsageError

NOW_MS = 1_795_003_200_000
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("a") | st.just("10s")
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
TASK_FIELDS = ["key", "depends_on", "fan_out", "cron", "odd", *sorted(EXECUTION_FIELDS)]
DAG_FIELDS = ["name", "tags", "policy", "sla_s", "overlap", "backoff", "odd", *sorted(DAG_TIMING_FIELDS)]


def some(fields: list[str], *, of: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object that is right but for one or two of these fields."""
    changes = st.dictionaries(st.sampled_from(fields), JSON, max_size=2)
    return changes.map(lambda changed: of | changed)


@given(some(DAG_FIELDS, of={}), st.lists(some(TASK_FIELDS, of={"key": "a", "task": "t"}), max_size=3) | JSON)
def test_it_is_taken_or_refused_by_field(dag: dict[str, Any], tasks: Any) -> None:
    try:
        posting = parse_dag(dag | {"tasks": tasks})
        posting.columns()
        posting.timing(NOW_MS)
        for task in posting.tasks:
            task.columns()
    except UsageError as error:
        assert error.field is not None
        assert str(error).startswith(error.field)
