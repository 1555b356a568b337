"""An agent for the command line to run: its tool rings a bell at the test and waits for the answer."""

import asyncio
import os

from outlast.adapter import Agent, Attempt, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.errors import HarnessError
from outlast.tool import ToolIO, tool


@tool(replay="safe")
async def ring(io: ToolIO, bell: str) -> str:
    """Ring, and wait for what is answered."""
    reader, writer = await asyncio.open_unix_connection(bell)
    try:
        io.show("ringing the bell\n")
        writer.write(f"{os.getpid()}\n".encode())
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


class Broken(Scripted):
    """A harness that always fails."""

    async def advance(self, attempt: Attempt) -> TurnResult:
        raise HarnessError(harness="broken", reason="it never works")


agent = Agent("till", Scripted(), tools=[ring])
broken = Agent("broken", Broken(), recovery_budget=0)
