"""SQL is never made of strings: every call that sends a statement is read here, as code.

Ruff's S608 knows SQL by its looks; this knows it by where it goes. What may be sent is a literal, a named
`.sql` file (`sql("…")`), or psycopg's own composition, which quotes each part; and never what an f-string, a
sum, a percent or a `format` made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rooms import ROOMS

ROOT = Path(__file__).parents[2]
SENDING = {"execute", "executemany", "copy", "stream"}
COMPOSING = {"SQL", "Composed"}
MADE = (ast.JoinedStr, ast.BinOp)


def made_strings(tree: ast.AST) -> Iterator[str]:
    """Where a made string is sent, or given to psycopg's `SQL`, as which it would count as ours."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            names = {name for node in own(scope) for name in made_names(node)}
            yield from (
                f"line {call.lineno}: {ast.unparse(call)[:80]}"
                for call in own(scope)
                if isinstance(call, ast.Call) and is_sending(call) and is_made(call.args[0], names)
            )


def own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from own(child)


def made_names(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.Assign) or not is_made(node.value, set()):
        return []
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def is_sending(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return bool(call.args) and (name in SENDING or name in COMPOSING)


def is_made(value: ast.AST, names: set[str]) -> bool:
    """Also inside of `bytes(…)`, `….encode()` and the like."""
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Call):
        func = value.func
        if isinstance(func, ast.Attribute):
            if func.attr in ("format", "join", "replace") and isinstance(func.value, ast.Constant):
                return True
            return func.attr == "encode" and is_made(func.value, names)
        return getattr(func, "id", "") in ("bytes", "str") and any(is_made(one, names) for one in value.args)
    return isinstance(value, MADE)


def sources() -> list[Path]:
    found = [path for room in ROOMS for path in (ROOT / room).rglob("*.py") if not path.is_symlink()]
    return sorted({path.resolve() for path in found})


def test_no_statement_is_made_of_strings() -> None:
    assert len(sources()) > 300
    found = {
        str(path.relative_to(ROOT)): made
        for path in sources()
        if (made := list(made_strings(ast.parse(path.read_text()))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        'conn.execute(f"SET ROLE {role}")',
        'conn.execute("LISTEN " + channel)',
        'conn.execute("NOTIFY %s" % channel)',
        'conn.execute("SET ROLE {}".format(role))',
        'cursor.executemany(f"CALL {name}()", [])',
        'cursor.copy(f"COPY {table} FROM STDIN")',
        'conn.execute(f"SET ROLE {role}".encode())',
        'conn.execute(bytes("SET ROLE " + role, "utf-8"))',
        'conn.execute(SQL(f"SET ROLE {role}"))',
        'def go(conn, role):\n    text = f"SET ROLE {role}"\n    conn.execute(text)',
        'conn.execute(" ".join(words))',
    ],
)
def test_it_would_be_found(code: str) -> None:
    assert list(made_strings(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        'conn.execute("SELECT 1")',
        'conn.execute(sql("read_job"), {"job_id": job_id})',
        'conn.execute(SQL("SET ROLE {}").format(Identifier(role)))',
        'def other(conn):\n    conn.execute(text)\n\ndef go(role):\n    text = f"hello {role}"',
    ],
)
def test_what_is_allowed(code: str) -> None:
    assert list(made_strings(ast.parse(code))) == []
