"""What Ctrl-C means while a turn is watched: detach, cancel, or go on."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal, TypeAlias

import anyio
import click

from outlast.cli.watching import Sink

Choice: TypeAlias = Literal["detach", "cancel", "go on"]
QUESTION: Final = "\n[d]etach, [c]ancel the turn, or [g]o on watching? "
_CHOICES: Final[dict[str, Choice]] = {"c": "cancel", "g": "go on", "d": "detach"}


async def ask_on_interrupt(sink: Sink, cancel: Callable[[], None], *, interactive: bool) -> None:
    """Return when the person wants to leave: by SIGTERM, or by Ctrl-C and what they answer.

    Args:
        cancel: begins to end the turn; the watching goes on until it has ended.
        interactive: there is a terminal to ask on; else Ctrl-C detaches.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if number == signal.SIGTERM or not interactive:
                return
            match await _choose(sink, signals):
                case "detach":
                    return
                case "cancel":
                    sink.note("cancelling …")
                    cancel()
                case "go on":
                    pass


async def _choose(sink: Sink, signals: AsyncIterator[signal.Signals]) -> Choice:
    """Ask until there is an answer; a second Ctrl-C, or the end of the input, detaches."""
    answers: list[Choice] = []
    with sink.aside():
        async with anyio.create_task_group() as tasks:

            async def listen() -> None:
                while not answers:
                    click.echo(QUESTION, nl=False, err=True)
                    await anyio.wait_readable(sys.stdin)
                    said = os.read(sys.stdin.fileno(), 1024).decode(errors="replace")
                    if said.strip()[:1].lower() in _CHOICES:
                        answers.append(_CHOICES[said.strip()[:1].lower()])
                    elif not said:
                        answers.append("detach")
                tasks.cancel_scope.cancel()

            async def again() -> None:
                await anext(signals)
                tasks.cancel_scope.cancel()

            tasks.start_soon(listen)
            tasks.start_soon(again)
    return answers[0] if answers else "detach"
