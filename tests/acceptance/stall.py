"""An agent for the page to show: real files, a command that writes, a charge that must not happen twice, a plan."""

import asyncio
import os

from outlast.adapter import Agent
from outlast.adapters.scripted import Scripted
from outlast.documents import Set
from outlast.rules import ask
from outlast.tool import ToolIO, tool
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.virtual import virtual


async def _rung(bell: str) -> str:
    """Ring at a bell, if there is one, and wait for what is answered."""
    if not bell:
        return "done"
    reader, writer = await asyncio.open_unix_connection(bell)
    try:
        writer.write(f"{os.getpid()}\n".encode())
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


@tool(replay="safe")
async def check(io: ToolIO, command: str, says: str = "", bell: str = "") -> str:
    """Show what a command writes, then wait at a bell."""
    io.show(says)
    return says + await _rung(bell)


@tool(replay="never", on_doubt="ask")
async def charge(io: ToolIO, customer: str, cents: int, bell: str = "") -> str:
    """Charge a customer; wait at a bell while it is on its way."""
    return f"charged {customer} {cents} cents: {await _rung(bell)}"


@tool(replay="never")
async def publish(io: ToolIO, command: str) -> str:
    """Put the shop on the web."""
    return "published"


@tool(replay="safe")
async def plan(io: ToolIO, steps: list[str]) -> str:
    """Write the plan down."""
    edited = await io.docs.edit("plan", Set({"steps": steps}))
    return f"version {edited.version}"


shop = Agent(
    "shop",
    Scripted(),
    tools=[*workspace_tools(), check, charge, publish, plan],
    rules=[ask("publish", why="a person looks at what goes on the web")],
    workspace=virtual(),
)
