"""An agent for the page to show: real files, a command that writes, a charge that must not happen twice, a plan."""

import asyncio
import os
import struct
import zlib
from pathlib import Path
from typing import Any, Final

from outlast.adapter import Agent, Attempt, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.documents import Set
from outlast.errors import HarnessError
from outlast.model import ImagePart
from outlast.rules import ask
from outlast.tool import ToolIO, tool
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.virtual import virtual

BELL: Final = "STALL_BELL"
"""Of the worker's environment: the bell that `here` means."""
ROUTES: Final = 'from shop import app\n\nPLANS = ["free", "team"]\n\n\n@app.get("/pricing")\ndef pricing():\n'
ROUTES_END: Final = '    return {"plans": PLANS}\n'
PRICES: Final = 'PLANS = {\n    "free": 0,\n    "team": 12,\n}'


async def _rung(bell: str) -> str:
    """Ring at a bell, if there is one, and wait for what is answered."""
    bell = os.environ[BELL] if bell == "here" else bell
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


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@tool(replay="safe")
async def look(io: ToolIO) -> ImagePart:
    """Show a green image, 48 by 16."""
    header = struct.pack(">IIBBBBB", 48, 16, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x0b\x6e\x69" * 48) * 16
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)
    return ImagePart(png, "image/png")


class Shut(Scripted):
    """A harness that lets nobody in while there is a file beside the bell."""

    async def advance(self, attempt: Attempt) -> TurnResult:
        if Path(f"{os.environ[BELL]}.shut").exists():
            raise HarnessError(harness="door", reason="the door is shut")
        return await super().advance(attempt)


def says(text: str, *tools: dict[str, Any]) -> dict[str, Any]:
    """The model says this and asks for tools."""
    usage = {"input_tokens": 2104, "output_tokens": 311, "cost_usd": 0.011}
    return {"do": "model", "text": text, "tools": list(tools), "usage": usage}


def uses(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool that it asks for."""
    return {"do": "tool", "name": name, "arguments": arguments}


PLAN: Final = "I'll write the routes first, then **set the prices**:\n\n1. `app/routes.py`\n2. the prices"
PRICING: Final = (
    says(PLAN, uses("write", path="app/routes.py", content=ROUTES + ROUTES_END)),
    says(
        "Now the prices.",
        uses("edit", path="app/routes.py", old_string='PLANS = ["free", "team"]', new_string=PRICES),
        uses("check", command="pytest -q", says="tests/test_pricing.py ..F. [ 60%]\n", bell="here"),
    ),
    says("The test passes. I write the plan down, and publish.", uses("plan", steps=["page", "prices"])),
    says("It goes on the web now.", uses("publish", command="ship --prod")),
    says("It is **published**."),
)
TOOLS: Final = (*workspace_tools(), check, charge, publish, plan, look)
RULES: Final = (ask("publish", why="a person looks at what goes on the web"),)

shop = Agent("shop", Scripted(), tools=TOOLS, rules=RULES, workspace=virtual())
builder = Agent("builder", Scripted(script=PRICING), tools=TOOLS, rules=RULES, workspace=virtual())
door = Agent("door", Shut(script=(says("I am in."),)), recovery_budget=0)
