"""Agents for the command line to run: they do what their prompt says, call by call."""

import json
import os

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.sandbox import Limits
from outlast.workspace_tools import workspace_tools
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.virtual import virtual
from tests.acceptance.till import ring

_GIVEN = {"bash": "command", "ring": "bell"}


async def build(io: IO, prompt: str) -> object:
    """Run `[["bash", command], ["ring", bell], …]`, one after the other."""
    return [await io.tool(name, **{_GIVEN[name]: word}) for name, word in json.loads(prompt)]


TOOLS = [*workspace_tools(), ring]
agent = Agent("builder", Loop(build), tools=TOOLS)
limited = Agent(
    "limited",
    Loop(build),
    tools=TOOLS,
    workspace=sandbox(idle_s=0, limits=Limits(memory_bytes=1 << 30, processes=300, cpus=1)),
)
stored = Agent(
    "stored", Loop(build), tools=TOOLS, workspace=virtual(store=os.environ.get("BUILDER_STORE", ""))
)
