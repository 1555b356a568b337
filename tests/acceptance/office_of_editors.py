"""Agents for editors to open: one that follows a script and may be held in the middle of a word, one that asks."""

import asyncio
import os
from collections.abc import AsyncGenerator

import anyio

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import Scripted
from outlast.rules import ask
from outlast.tool import ToolIO, tool
from tests.acceptance.till import ring

BELL = "OUTLAST_TEST_BELL"


async def halting(text: str) -> AsyncGenerator[str, None]:
    """Say `text`; where it has a bar, ring the bell there and wait for an answer before going on."""
    first, bar, rest = text.partition("|")
    yield first
    if bar:
        reader, writer = await asyncio.open_unix_connection(os.environ[BELL])
        writer.write(f"{os.getpid()}\n".encode())
        await reader.readline()
        writer.close()
        yield rest


@tool
async def pay(io: ToolIO, cents: int) -> str:
    """Pay, and write it down where it can be counted."""
    async with await anyio.open_file("paid.txt", "a") as ledger:
        await ledger.write(f"{cents}\n")
    return f"paid {cents}"


@tool(on_doubt="ask")
async def ship(io: ToolIO, bell: str) -> str:
    """Ship, which takes until somebody says that it has arrived."""
    io.show("on its way\n")
    reader, writer = await asyncio.open_unix_connection(bell)
    writer.write(f"{os.getpid()}\n".encode())
    await reader.readline()
    writer.close()
    return "shipped"


async def curious(io: IO, prompt: str) -> str:
    """Ask which colour, then say it."""
    colour = await io.ask(f"Which colour for {prompt}?")
    return f"{prompt} is {colour} now"


desk = Agent("desk", Scripted(model=halting), tools=[ring, pay, ship], rules=[ask("pay")])
asker = Agent("asker", Loop(curious))
