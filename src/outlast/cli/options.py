"""What every command is given: settings, the World, whether to speak JSON."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import anyio
import click
import msgspec

from outlast.cli.exits import guarded
from outlast.opening import open_world
from outlast.settings import Settings, read_settings
from outlast.world import World

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of this invocation, and how to answer."""

    settings: Settings
    json: bool

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        """The World that the settings name."""
        async with open_world(self.settings.world_url) as world:
            yield world

    def say(self, value: object, text: str) -> None:
        """Print `value` as one line of JSON, or `text` for people."""
        click.echo(msgspec.json.encode(value).decode() if self.json else text)


def shared(command: Command) -> Command:
    """Add `--world` and `--json` to a command."""
    command = click.option("--json", is_flag=True, help="Answer in JSON, one object a line.")(command)
    return click.option("--world", metavar="URL", help="The World to use, in place of OUTLAST_WORLD.")(
        command
    )


def perform(body: Callable[[Setup], Awaitable[int | None]], *, world: str | None, json: bool) -> NoReturn:
    """Run the body of a command and end the process."""

    def run() -> int | None:
        settings = read_settings()
        if world:
            settings = replace(settings, world=world)
        logging.basicConfig(
            level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
        )
        return anyio.run(body, Setup(settings, json))

    guarded(run, json=json)
