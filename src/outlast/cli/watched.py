"""`outlast ls --watch`: the list of sessions, as it changes."""

import os
import shutil
import sys
import termios
import tty
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import anyio
import click

from outlast.cli.awaited import Awaited
from outlast.cli.listing import Row, columns, pages, rows_of, told, what_waits
from outlast.cli.options import Setup
from outlast.world import SessionHead, World

BEAT_S: Final = 1.0
"""After so long the list is read again, whatever hints have come: what a worker commits brings none."""
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _LINE_END, _REST = "\x1b[H", "\x1b[K", "\x1b[J"
_ENDS: Final = frozenset({"q", "Q", "\x03", "\x04"})


class _Read:
    """The list as it was read last."""

    def __init__(self, setup: Setup, world: World, limit: int, *, only_open: bool) -> None:
        self._setup, self._world = setup, world
        self._limit, self._only_open = limit, only_open
        self.heads: list[SessionHead] = []
        self.awaited: Mapping[str, Sequence[Awaited]] = {}

    async def again(self) -> list[SessionHead]:
        """Read it; returns the sessions that are others than before."""
        before = {head.session: head for head in self.heads}
        found = [
            head async for page in pages(self._world, self._limit, only_open=self._only_open) for head in page
        ]
        changed = [head for head in found if before.get(head.session) != head]
        awaited = await what_waits(self._world, changed, self._setup.clock)
        here = {head.session for head in found}
        kept = {name: one for name, one in self.awaited.items() if name in here}
        self.awaited = {**kept, **{head.session: awaited.get(head.session, ()) for head in changed}}
        self.heads = found
        return changed

    async def rows(self, heads: Sequence[SessionHead]) -> list[Row]:
        return rows_of(heads, await self._world.workers(), self._setup.clock.now(), self.awaited)


async def watch_list(setup: Setup, world: World, limit: int, *, only_open: bool) -> None:
    """Show the list until somebody ends it: a terminal the whole of it, anything else what has changed, as lines."""
    read = _Read(setup, world, limit, only_open=only_open)
    if setup.json or not (sys.stdout.isatty() and sys.stdin.isatty()):
        await _lines(setup, world, read)
        return
    with _screen():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_draw, world, read)
            await _until_ended()
            tasks.cancel_scope.cancel()


async def _lines(setup: Setup, world: World, read: _Read) -> None:
    async with world.subscribe() as changes:
        while True:
            changed = await read.again()
            for head, row in zip(changed, await read.rows(changed), strict=True):
                setup.say(told(head, read.awaited.get(head.session, ())), "   ".join(columns([row])))
            sys.stdout.flush()
            await changes.wait(BEAT_S)


async def _draw(world: World, read: _Read) -> None:
    async with world.subscribe() as changes:
        while True:
            await read.again()
            size = shutil.get_terminal_size()
            board = drawn(await read.rows(read.heads), world.name, size.columns, size.lines)
            sys.stdout.write(_HOME + "".join(f"{line}{_LINE_END}\r\n" for line in board[:-1]))
            sys.stdout.write(f"{board[-1]}{_LINE_END}{_REST}")
            sys.stdout.flush()
            await changes.wait(BEAT_S)


def drawn(rows: Sequence[Row], name: str, wide: int, high: int) -> list[str]:
    """The list for a terminal: one line each, none wider, as many as there is room for, and how to end it."""
    shown = rows[: max(1, high - 2)]
    more = f"   … {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
    lines = list(columns(shown)) or ['No session yet. Begin one: outlast run claude-code "…"']
    return [line[: max(1, wide)] for line in [*lines, "", f"{name}{more}   q ends"]][-max(2, high) :]


async def _until_ended() -> None:
    """Return when somebody presses a key that ends it, or the terminal is gone."""
    while True:
        await anyio.wait_readable(sys.stdin)
        keys = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        if not keys or _ENDS & set(keys):
            return


@contextmanager
def _screen() -> Generator[None]:
    """A screen of its own, on which keys are read as they are pressed."""
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    click.echo(_ENTER, nl=False)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        click.echo(_LEAVE, nl=False)
