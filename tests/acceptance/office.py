"""Loops for the command line to run: one waits for a signal, one asks a person, one pays and may be in doubt."""

import asyncio
import os
from pathlib import Path

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.rules import ask
from outlast.tool import ToolIO, tool


def note(ledger: str) -> None:
    """Another line in a ledger."""
    with Path(ledger).open("a", encoding="utf-8") as lines:
        lines.write("paid\n")


@tool(replay="never", on_doubt="ask")
async def pay(io: ToolIO, ledger: str, bell: str) -> str:
    """Write a line into the ledger, ring, and wait for what is answered."""
    note(ledger)
    if bell:
        reader, writer = await asyncio.open_unix_connection(bell)
        try:
            writer.write(f"{os.getpid()}\n".encode())
            return (await reader.readline()).decode().strip()
        finally:
            writer.close()
    return "paid"


async def _pay(io: IO, prompt: str) -> object:
    """The prompt is the ledger, a blank, and a bell, if there is one."""
    ledger, _, bell = prompt.partition(" ")
    return await io.tool(pay, ledger=ledger, bell=bell)


async def _wait(io: IO, prompt: str) -> object:
    started = await io.uuid()
    return [len(started), await io.wait_for(prompt)]


async def _ask(io: IO, prompt: str) -> object:
    choices = ["yes", "no", "1"] if "(choose)" in prompt else []
    return await io.ask(prompt, choices=choices)


async def _sleep(io: IO, prompt: str) -> object:
    return await io.sleep(float(prompt))


async def _stray(io: IO, prompt: str) -> object:
    """Goes another way each time, unless the ledger has nothing to say against it."""
    lines = Path(prompt).read_text(encoding="utf-8").split() if Path(prompt).exists() else []
    await io.once(f"after {len(lines)}", lambda: None)
    return await io.wait_for("ready")


payer = Agent("payer", Loop(_pay), tools=[pay])
careful = Agent("careful", Loop(_pay), tools=[pay], rules=[ask("pay", ledger="*", why="it is money")])
waiter = Agent("waiter", Loop(_wait))
asker = Agent("asker", Loop(_ask))
sleeper = Agent("sleeper", Loop(_sleep))
stray = Agent("stray", Loop(_stray))
