"""What commands take: JSON on the line, JSON or YAML in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from shardwheel.errors import UsageError


def json_of(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        quoted = msgspec.json.encode(text[:40]).decode()
        remedy = (
            "names and texts stand in double quotes"
            if text[:1] in "{["
            else f"a text is written as '{quoted}'"
        )
        raise UsageError(f"{field}: {text!r:.200} is not JSON ({error}); {remedy}", field=field) from error


def text_of_file(file: Path) -> str:
    """What stands in a file; `-` is standard input."""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        problem = "is no text (a database, a pickle?): give a source file, or an export as JSON"
        raise UsageError(f"file: {file} {problem}", field="file") from error
    except OSError as error:
        problem = f"{file} can't be read ({error.strerror}); name one that can, or - for standard input"
        raise UsageError(f"file: {problem}", field="file") from error


def value_of_file(file: Path) -> Any:
    """What a file says, be it JSON or YAML."""
    text = text_of_file(file)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as of_json:
        if file.suffix == ".json":
            problem = f"{file} is not JSON ({of_json}); mend it there, or name it .yaml if that is what it is"
            raise UsageError(f"file: {problem}", field="file") from of_json
    # JSON does without: it is loaded where it is needed.
    import yaml

    # The same loader, but in C: ten thousand tasks are read in a second, not in ten.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = f"{file} is neither JSON nor YAML; mend it there: {error}"
        raise UsageError(f"file: {problem}", field="file") from error


def object_of_file(file: Path, such_as: str) -> dict[str, Any]:
    body = value_of_file(file)
    if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
        raise UsageError(f"file: {file} is not an object; write fields such as {such_as}", field="file")
    return body
