"""Starts workers on hints, and from time to time without.

Invariants:

* One command runs at a time. A hint that comes while one runs makes one more run after it: what it saw may be older.
* However many hints are lost, a run begins no later than `every_s` after the last one has ended.
* It never outlives its command: told to end, it passes that on, each time that it is told, and waits.
"""

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import anyio
import anyio.abc
import click

from outlast.waker import Hint

FAILED_PAUSE_S: Final = 5.0
"""At least so long after a command that failed: it may fail at once."""
PATIENCE_S: Final = 3600.0
"""How long a command may take to end once it was told to; its own limits are shorter."""


class Starter:
    """Runs a command when there may be something to do, until a signal comes.

    Args:
        command: words; no shell runs.
        every_s: seconds after which it is run without a hint.
    """

    def __init__(self, command: Sequence[str], every_s: float) -> None:
        self._command = list(command)
        self._every_s = every_s
        self._wanted = anyio.Event()
        self._process: anyio.abc.Process | None = None
        """The command, while it runs."""

    def hear(self, _hint: Hint | None) -> None:
        """Somebody says that there is something to do."""
        self._wanted.set()

    async def run(self) -> None:
        """Run the command again and again; returns after SIGTERM or SIGINT, when it has ended."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as tasks:
                going = anyio.CancelScope()
                tasks.start_soon(self._go_on, going, tasks.cancel_scope)
                async for _ in signals:
                    if going.cancel_called:  # a worker hands over when it is told once more
                        self._tell_to_end()
                    going.cancel()

    async def _go_on(self, going: anyio.CancelScope, all_of_it: anyio.CancelScope) -> None:
        with going:
            await self._run_again_and_again()
        all_of_it.cancel()

    async def _run_again_and_again(self) -> None:
        while True:
            self._wanted = anyio.Event()
            status = await self._run_once()
            if status:
                click.echo(f"outlast: the command ended with status {status}", err=True)
                await anyio.sleep(min(FAILED_PAUSE_S, self._every_s))
            with anyio.move_on_after(self._every_s):
                await self._wanted.wait()

    async def _run_once(self) -> int:
        """Run the command to its end; when this is cancelled it is told to end, and waited for."""
        try:
            process = await anyio.open_process(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=None,
                stderr=None,
                start_new_session=True,  # Ctrl-C is passed on by us, once
            )
        except OSError as error:
            click.echo(f"outlast: {self._command[0]} cannot be run: {error}", err=True)
            return 127
        self._process = process
        try:
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            self._tell_to_end()
            with anyio.CancelScope(shield=True), anyio.move_on_after(PATIENCE_S):
                await process.wait()
            raise
        finally:
            self._process = None

    def _tell_to_end(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
