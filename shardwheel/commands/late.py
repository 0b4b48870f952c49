"""Commands that are imported when they are said: a service loads what it needs, no line waits for the rest.

    Later("job", "shardwheel.commands.job_noun", "Create, look at and steer jobs.", "Jobs")

shows a name and a sentence in the list of commands, and becomes the `app` of that module for whoever says it,
asks for its help or completes it. A test compares the sentences with those that the modules have.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from inspect import cleandoc
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


class Later(TyperCommand):
    """It stands for a command: whatever is done with that is done by `loaded`."""

    def __init__(self, name: str, module: str, help_text: str, panel: str) -> None:
        super().__init__(name, help=help_text, rich_help_panel=panel)
        self._module = module

    @cached_property
    def loaded(self) -> TyperCommand | TyperGroup:
        command = get_command(import_module(self._module).app)
        assert isinstance(command, TyperCommand | TyperGroup)
        command.name = self.name
        _let_flow(command)
        return command

    def make_context(self, *args: Any, **more: Any) -> Any:
        """From here on the context's command is the real one."""
        return self.loaded.make_context(*args, **more)


def _let_flow(command: Any) -> None:
    """A terminal breaks the lines of a help where it is narrow; where the source does is nobody's affair."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(
        text if text.startswith(" ") else " ".join(text.split()) for text in paragraphs
    )
    for inner in getattr(command, "commands", {}).values():
        _let_flow(inner)


def whole(command: Any) -> Any:
    """The command that this stands for; any other is itself. For whoever walks through all of them."""
    return command.loaded if isinstance(command, Later) else command


def group_of(commands: tuple[Later, ...]) -> type[TyperGroup]:
    """What to give a Typer as its `cls`, so that these are its commands."""

    class LateGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for command in commands:
                self.add_command(command)

    return LateGroup
