"""How a verb that speaks to the API is written: its own words, and a terminal to do it at.

    @verb(app)
    def pause(at: Terminal, job_id: JobId) -> None:
        \"\"\"Nothing of the job starts from now on.\"\"\"
        at.show(at.api.post("/jobs/{}:pause", job_id))

The options of `said` are added to those that the function names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

import typer

from shardwheel.commands import said
from shardwheel.commands.calling import Api
from shardwheel.commands.reach import find_api
from shardwheel.errors import ConflictError
from shardwheel.output import Format, agreed, print_page, print_rows, print_thing

F = TypeVar("F", bound=Callable[..., None])


class Terminal:
    """Where a verb is said: the API that it means, and somebody who reads the answer."""

    def __init__(self, words: said.Said) -> None:
        self.said = words
        self.output = words.output or Format.table

    @cached_property
    def api(self) -> Api:
        return Api(find_api(self.said))

    @property
    def is_for_people(self) -> bool:
        return self.output is Format.table

    def show(self, thing: Mapping[str, Any]) -> None:
        print_thing(thing, self.output)

    def rows(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        print_rows(rows, columns, self.output)

    def page(self, page: Mapping[str, Any], columns: Sequence[str]) -> None:
        print_page(page["items"], page["next_cursor"], columns, self.output)

    def show_dealt(self, done_word: str, done: int, refused: Mapping[str, int]) -> None:
        """What became of many, the refused ones by their reasons: exit code 4 tells scripts of these."""
        self.show({done_word: done, "refused": dict(refused)})
        if refused:
            raise typer.Exit(4)

    def agree(self, question: str, done_word: str, yes: bool) -> None:
        """Go on only if somebody says so: with --yes, or at the terminal."""
        if not yes and not agreed(question):
            raise ConflictError(f"nothing was {done_word}: say --yes, or answer y at the terminal")


def verb(app: typer.Typer, name: str | None = None) -> Callable[[F], F]:
    def register(function: F) -> F:
        app.command(name)(with_options(function))
        return function

    return register


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function as Typer is to see it: without its terminal, with the options of all verbs."""
    own = _parameters(function)[1:]
    common = _parameters(said.before_the_verb)

    def command(**given: Any) -> None:
        words = said.hear(**{one.name: given.pop(one.name) for one in common})
        function(Terminal(words), **given)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    parameters = [*own, *common]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _parameters(function: Callable[..., None]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters.values()
    return [one.replace(annotation=hints[one.name]) for one in found]
