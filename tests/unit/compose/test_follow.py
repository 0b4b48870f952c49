"""`dev logs`: whole lines, from the end of what is there, until nothing more comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwheel.compose.follow import follow


def test_the_last_lines_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntwo\nthree\nunfinished")
    follow({"etcd": log}, lines=2, until=lambda: True)
    assert capsys.readouterr().out == "two\nthree\nunfinished\n"


def test_several_logs_are_told_apart_and_a_missing_one_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("shard-1", "shard-2"):
        (tmp_path / name).write_text(f"hello from {name}\n")
    paths = {name: tmp_path / name for name in ("shard-1", "shard-2", "shard-3")}
    follow(paths, lines=5, until=lambda: True)
    assert capsys.readouterr().out == "shard-1: hello from shard-1\nshard-2: hello from shard-2\n"


def test_what_is_added_follows_in_whole_lines_over_a_change_of_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("old\nha")
    # Each look happens after one of these; the file shrinks in the last: it was moved aside.
    contents = iter(["old\nhalf a line, the rest\nmore\nmo", "new\n"])
    printed: list[str] = []

    def until() -> bool:
        printed.append(capsys.readouterr().out)
        content = next(contents, None)
        if content is not None:
            log.write_text(content)
        return content is None

    follow({"log": log}, lines=0, until=until)
    printed.append(capsys.readouterr().out)
    assert printed == ["", "half a line, the rest\nmore\n", "new\n", ""]
