"""A Python file read without running it: literals, constants of the module, and calls as what they say.

`Call("crontab", (), {"hour": 9})` stands for `crontab(hour=9)`. What can't be known without running the file
(a function's result, a setting of the environment) raises `UnreadableError` with the words themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from shardwheel.errors import UsageError


class UnreadableError(UsageError):
    """It would have to be run to be known, and nothing here runs."""


class Call(NamedTuple):
    """`name` is the last part: `schedules.crontab(…)` is a crontab. `path` is all of it."""

    name: str
    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Source:
    """A parsed file, and what its module-level names mean as far as they are written down plainly."""

    def __init__(self, text: str, name: str) -> None:
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = f"{name} is not Python that can be read ({error}), and no dump as JSON; give either"
            raise UsageError(f"file: {problem}", field="file") from error
        self._constants: dict[str, ast.expr] = {}
        for target, value in self.assignments(self.tree.body):
            if isinstance(target, ast.Name):
                self._constants[target.id] = value

    def assignments(self, body: list[ast.stmt]) -> Iterator[tuple[ast.expr, ast.expr]]:
        for statement in body:
            if isinstance(statement, ast.Assign):
                yield from ((target, statement.value) for target in statement.targets)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                yield statement.target, statement.value

    def walk(self) -> Iterator[ast.AST]:
        """Every node, in the order of the file."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt | ast.expr)]
        return iter(sorted(nodes, key=lambda node: (node.lineno, node.col_offset)))

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        if depth > 50:
            raise UnreadableError("is nested too deeply to be read")
        below = depth + 1
        match node:
            case ast.Constant(value):
                return value
            case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts):
                return [self.value(one, below) for one in elts]
            case ast.Dict(keys, values):
                return self._dict(keys, values, below)
            case ast.Name(name) if name in self._constants:
                return self.value(self._constants[name], below)
            case ast.UnaryOp(ast.USub(), operand):
                return -self._number(operand, below)
            case ast.BinOp(left, operator, right):
                return self._computed(left, operator, right, below)
            case ast.Call():
                return _known(self.call(node, below))
        raise UnreadableError(f"{spelled(node)} would have to be run to be known; write it out")

    def call(self, node: ast.Call, depth: int = 0) -> Call:
        if any(keyword.arg is None for keyword in node.keywords) or any(
            isinstance(one, ast.Starred) for one in node.args
        ):
            raise UnreadableError(f"{spelled(node)} unpacks arguments; write them out")
        path = spelled(node.func)
        args = tuple(self.value(one, depth) for one in node.args)
        kwargs = {keyword.arg or "": self.value(keyword.value, depth) for keyword in node.keywords}
        return Call(path.rpartition(".")[2], path, args, kwargs)

    def _dict(self, keys: list[ast.expr | None], values: list[ast.expr], depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:
                raise UnreadableError("** in a dict would have to be run to be known; write it out")
            name = self.value(key, depth)
            if isinstance(name, list | dict):
                raise UnreadableError(f"{spelled(key)} is no name")
            found[name] = self.value(value, depth)
        return found

    def _number(self, node: ast.expr, depth: int) -> Any:
        found = self.value(node, depth)
        if isinstance(found, bool) or not isinstance(found, int | float | timedelta):
            raise UnreadableError(f"{spelled(node)} is not a number")
        return found

    def _computed(self, left: ast.expr, operator: ast.operator, right: ast.expr, depth: int) -> Any:
        """`60 * 15`, `timedelta(hours=1) + timedelta(minutes=5)`: what people write for a length of time."""
        one, other = self._number(left, depth), self._number(right, depth)
        try:
            if isinstance(operator, ast.Mult):
                return one * other
            if isinstance(operator, ast.Add):
                return one + other
        except (TypeError, OverflowError):
            pass
        raise UnreadableError(f"{spelled(left)} … {spelled(right)} can't be computed; write it out")


def written_out(value: Any, field: str) -> None:
    """Refuse a value in which a call is left that only a run could answer: as JSON it would be nonsense."""
    if isinstance(value, Call):
        raise UnreadableError(f"{field}: {value.path}(…) would have to be run to be known; write it out")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        written_out(inner, field)


def spelled(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _known(call: Call) -> Any:
    """A call whose result is known without running anything of the file's."""
    try:
        if call.name == "timedelta":
            return timedelta(*call.args, **call.kwargs)
        if call.path == "range" and not call.kwargs and len(found := range(*call.args)) <= 1_000:
            return list(found)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnreadableError(f"{call.path}(…): {error}") from error
    return call
