"""A group whose commands are imported when they are used: help and `ls` must not wait for what `work` needs."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click


def loaded(target: str) -> Any:
    """What `module:attribute` names, imported now and not with the module that asks."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


class Promised(click.Command):
    """A command that is known by its name and one line; `load` imports it.

    Args:
        target: `module:attribute` of the command.
    """

    def __init__(self, name: str, target: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._target = target

    def load(self) -> click.Command:
        """The command itself."""
        return cast("click.Command", loaded(self._target))


class LazyGroup(click.Group):
    """A group of promised commands. Help and completion read their promises, an invocation loads one of them."""

    def __init__(self, *arguments: Any, promises: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for name, (target, short_help) in promises.items():
            self.add_command(Promised(name, target, short_help))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which a person meets them

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Promised) else command, rest


def load_all(group: click.Group) -> Sequence[click.Command]:
    """Every command of `group`, imported."""
    return [one.load() if isinstance(one, Promised) else one for one in group.commands.values()]
