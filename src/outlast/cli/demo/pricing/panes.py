"""The two runs without outlast as sessions of their own, so that the page shows all three beside each other.

Such a session does nothing but show what its run says: a worker of its own reads the lines that the run leaves.
"""

import os
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.cli.demo.pricing.shop import ASKED
from outlast.cli.work import worker_argv
from outlast.session import Session
from outlast.tool import ToolIO, result_text, tool
from outlast.world import World

LINES: Final = "OUTLAST_DEMO_LINES"
"""Names the directory of the lines."""
SESSIONS: Final = {"restart": "pricing-restart", "continue": "pricing-continue"}
LOOK_S: Final = 0.1
_END: Final = "\N{END OF TRANSMISSION}"


@tool(replay="safe", name="claude")
async def bare(io: ToolIO, how: str) -> str:  # noqa: ARG001 - for who reads it
    """Show what a run says, until it is over."""
    file = anyio.Path(os.environ[LINES]) / f"{io.session}.txt"
    shown = 0
    while True:
        text = await file.read_text(encoding="utf-8")
        whole, end, _ = text.partition(_END)
        if len(whole) > shown:
            io.show(whole[shown:])
            shown = len(whole)
        if end:
            return whole
        await anyio.sleep(LOOK_S)


async def run(io: IO, prompt: str) -> str:  # noqa: ARG001 - it was said to the program
    """Show a run in which outlast has no part."""
    return result_text((await io.result(bare.name, {"how": "without outlast"})).value)


agent = Agent("pricing-without", Loop(run), tools=[bare])


class Panes:
    """Where the runs leave their lines."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def teller(self, run: str, say: Callable[[str], None]) -> Callable[[str], None]:
        """What says a line of a run here too."""

        def both(text: str) -> None:
            say(text)
            self._write(run, f"{text}\n")

        return both

    def end(self, run: str) -> None:
        """The run is over."""
        self._write(run, _END)

    def _write(self, run: str, text: str) -> None:
        with (self._directory / f"{SESSIONS[run]}.txt").open("a", encoding="utf-8") as lines:
            lines.write(text)


@asynccontextmanager
async def open_panes(world: World, directory: Path, environ: Mapping[str, str]) -> AsyncGenerator[Panes]:
    """The sessions, and the worker that shows what they are told, as long as the context lasts."""
    for name in SESSIONS.values():
        (directory / f"{name}.txt").touch()
        session = await Session.open(world, name, agent=agent)
        await session.send(ASKED, id="pricing-1")
    with (directory / "panes.log").open("wb") as log:
        process = await anyio.open_process(
            worker_argv(f"{__name__}:agent", "--agents", agent.name, "--until-eof"),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**environ, LINES: str(directory)},
            start_new_session=True,
        )
    try:
        yield Panes(directory)
    finally:
        with anyio.CancelScope(shield=True):
            process.terminate()
            process.terminate()  # hand over at once: nothing is left to do
            await process.wait()
            await process.aclose()
