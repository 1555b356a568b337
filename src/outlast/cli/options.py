"""What every command is given: settings, the World, whether to speak JSON."""

import io
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import anyio
import click
import msgspec
from click.shell_completion import CompletionItem

from outlast.cli.exits import guarded
from outlast.clock import Clock, SystemClock
from outlast.errors import BadInput, OutlastError
from outlast.logs import WITHOUT_WORDS
from outlast.opening import open_world, waker_of
from outlast.settings import Settings, read_settings
from outlast.world import World
from outlast.world.checks import PRIORITY_LIMIT

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of this invocation, and how to answer."""

    settings: Settings
    json: bool
    clock: Clock = field(default_factory=SystemClock)

    @asynccontextmanager
    async def world(self) -> AsyncGenerator[World]:
        """The World that the settings name, as their tenant sees it."""
        async with open_world(self.settings.world_url) as world:
            yield world.for_tenant(self.settings.tenant)

    async def wake(self, tenant: str, session: str) -> None:
        """Tell whoever the settings name, if anybody, that a session is ready; of an empty name, whatever is.

        Raises:
            BadSettings: the URL cannot be used.
        """
        waker = waker_of(self.settings)
        if waker is not None:
            await waker.wake(tenant, session)

    def say(self, value: object, text: str) -> None:
        """Print `value` as one line of JSON, or `text` for people."""
        click.echo(msgspec.json.encode(value).decode() if self.json else text)


class SessionName(click.ParamType[str]):
    """A session's id, completed from the World."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Ids that begin with `incomplete`, newest change first."""
        try:
            found = anyio.run(_names, ctx.params.get("world"))
        except (OutlastError, OSError):
            return []  # a completion has nowhere to complain
        return [CompletionItem(name, help=status) for name, status in found if name.startswith(incomplete)]


async def _names(url: str | None) -> list[tuple[str, str]]:
    async with open_world(url) as world:
        page = await world.for_tenant(read_settings().tenant).list(limit=200)
        return [(head.session, head.status) for head in page.sessions]


SESSION = SessionName()
PRIORITY: Final = click.IntRange(-PRIORITY_LIMIT, PRIORITY_LIMIT)
ATTACH: Final = click.option(
    "--attach",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that comes with the prompt, such as an image; may be given more than once.",
)


def shared(command: Command) -> Command:
    """Add `--world` and `--json` to a command."""
    command = click.option("--json", is_flag=True, help="Answer in JSON, one object a line.")(command)
    return click.option("--world", metavar="URL", help="The World to use, in place of OUTLAST_WORLD.")(
        command
    )


def examples(*lines: str) -> str:
    """An epilog of command lines, one below the other."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def given(text: str) -> str:
    """`text`, or with `-` what standard input holds.

    Raises:
        BadInput: it is empty or is no Unicode.
    """
    try:
        found = sys.stdin.read() if text == "-" else text
    except UnicodeDecodeError as error:
        raise BadInput(detail=f"Standard input is no Unicode text: {error}.") from None
    if not found.strip():
        raise BadInput(detail="The text is empty. Give one, or `-` to read it from standard input.")
    return found


def setup_of(*, world: str | None, json: bool) -> Setup:
    """Read the settings, and let our own log lines, no library's, reach standard error.

    Raises:
        BadSettings
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a sign is no reason to fail
    settings = read_settings()
    if world is not None:
        settings = replace(settings, world=world)
    # Libraries log what passes through them, credentials included; only ours is known to log ids alone.
    handler = logging.StreamHandler()
    handler.addFilter(WITHOUT_WORDS)
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form, handlers=[handler])
    logging.getLogger("outlast").setLevel(settings.log_level.upper())
    return Setup(settings, json)


def perform(body: Callable[[Setup], Awaitable[int | None]], *, world: str | None, json: bool) -> NoReturn:
    """Run the body of a command and end the process."""
    guarded(lambda: anyio.run(body, setup_of(world=world, json=json)), json=json)
