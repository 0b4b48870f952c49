"""Is a line of a page, or of a message, one that `shardctl` understands? Nothing is run for it.

Held are the nouns and verbs, the options, and, where a line is whole, that nothing it needs is missing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from typer._click.exceptions import BadOptionUsage, UsageError
from typer.core import TyperGroup
from typer.main import get_command

from shardwheel.cli import app
from shardwheel.commands.late import whole

ENDS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "(", ")"}
NESTED = re.compile(r"\$\((shardctl [^()]*)\)")
ROOT = get_command(app)


def problem_of(words: list[str], *, is_whole: bool) -> str:
    """What is wrong with the words after `shardctl`; empty if nothing is."""
    command: Any = ROOT
    context = command.context_class(command, info_name="shardctl")
    while True:
        try:
            given, rest, _ = command.make_parser(context).parse_args(list(words))
        except UsageError as error:
            # A sentence may name an option without what it is given.
            return "" if isinstance(error, BadOptionUsage) and not is_whole else error.format_message()
        below = command.commands.get(rest[0]) if isinstance(command, TyperGroup) and rest else None
        if below is None:
            break
        command, words = whole(below), rest[1:]
        context = command.context_class(command, info_name=rest[0], parent=context)
    if rest:
        return f"{rest[0]!r} is too much for {context.command_path}"
    if not is_whole:
        return ""
    if isinstance(command, TyperGroup) and not command.invoke_without_command:
        return f"{context.command_path} wants a verb"
    missing = [one.name for one in command.params if one.required and given.get(one.name) is None]
    return f"{context.command_path} wants {missing}" if missing else ""


def invocations(command: str) -> Iterator[list[str]]:
    """The words after each `shardctl` of a line of shell."""
    for inner in NESTED.findall(command):
        yield from invocations(inner)
    words: list[str] | None = None
    lexer = shlex.shlex(NESTED.sub("X", command), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for token in lexer:
        if words is not None and token in ENDS:
            yield words
            words = None
        elif words is not None:
            words.append(token)
        elif token == "shardctl" or token.endswith("/shardctl"):
            words = []
    if words is not None:
        yield words


def spelled_out(text: str) -> Iterator[list[str]]:
    """Of what a sentence names: `task pause | resume NAME` is two, what stands in brackets may be left out,
    and `…` is whatever belongs there."""
    tokens = [token.strip("[]") for token in shlex.split(text.replace("…]", "]").replace(" > ", " ; "))]
    tokens = tokens[: tokens.index(";")] if ";" in tokens else tokens
    while "|" in tokens:
        at = tokens.index("|")
        last = at + 1
        while last + 1 < len(tokens) and tokens[last + 1] == "|":
            last += 2
        for choice in (tokens[at - 1], *tokens[at + 1 : last + 1 : 2]):
            yield from spelled_out(shlex.join([*tokens[: at - 1], choice, *tokens[last + 1 :]]))
        return
    while tokens and tokens[-1] in ("…", ""):
        tokens.pop()
    yield tokens[1:]
