"""Handlers register by task name; what can't be is refused with the field."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from shardwheel.errors import UsageError
from shardwheel.handler import LONGEST_WAIT_S, Registry, Retryable, handler, import_handlers, require_handlers
from shardwheel.handler import registry as process_registry


def test_async_and_plain_functions_register() -> None:
    registry = Registry()

    @handler("a", pool="long", timeout_s=5, registry=registry)
    async def first(ctx: Any, params: Any) -> None: ...

    @handler("b", registry=registry)
    def second(ctx: Any, params: Any) -> None: ...

    assert registry.tasks == {"a", "b"}
    known = registry.get("a")
    assert known is not None and (known.pool, known.timeout_s, known.is_async) == ("long", 5, True)
    other = registry.get("b")
    assert other is not None and not other.is_async
    assert registry.get("c") is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task": ""}, "task"),
        ({"task": "a", "pool": "huge"}, "pool"),
        ({"task": "a", "timeout_s": 0}, "timeout_s"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        handler(**fields, registry=Registry())(lambda ctx, params: None)
    assert caught.value.field == field


def test_two_handlers_for_one_task_are_refused_but_a_reload_is_not() -> None:
    registry = Registry()

    def one(ctx: Any, params: Any) -> None: ...

    handler("a", registry=registry)(one)
    handler("a", registry=registry)(one)
    with pytest.raises(UsageError, match="two handlers"):
        handler("a", registry=registry)(lambda ctx, params: None)


def test_a_module_of_the_current_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_handlers.py").write_text(
        "from shardwheel import handler\n@handler('imported.task')\ndef f(ctx, params): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    import_handlers("my_own_handlers")
    assert "imported.task" in process_registry.tasks
    with pytest.raises(UsageError, match="no module 'absent_handlers'"):
        import_handlers("absent_handlers")


def test_a_slip_in_a_module_is_told_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_handlers.py").write_text("from shardwheel import handler\ndef send(ctx, params)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    with pytest.raises(UsageError, match=r"broken_handlers\.py, line 2: expected ':'; mend it there"):
        import_handlers("broken_handlers")


@pytest.mark.parametrize("absent", ["absent", "absent.jobs", "my_jobs.py", ".jobs", "."])
def test_a_module_that_is_not_there_is_refused_and_none_is_run(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_jobs.py").write_text("raise SystemExit")
    (tmp_path / "my_app").mkdir()
    (tmp_path / "my_app" / "__init__.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    require_handlers("my_jobs")
    require_handlers("my_app.jobs")
    with pytest.raises(UsageError, match="there is no module"):
        require_handlers(absent)


@pytest.mark.parametrize(
    ("after_s", "after_ms"),
    [(None, -1), (0, 0), (1.5, 1500), (-1, -1), (math.inf, -1), (math.nan, -1), (LONGEST_WAIT_S + 1, -1)],
)
def test_a_wish_that_is_no_time_to_wait_leaves_it_to_the_backoff(after_s: float, after_ms: int) -> None:
    assert Retryable(after_s=after_s).after_ms == after_ms
