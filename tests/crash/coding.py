"""An agent that changes files of its workspace: each command is one that must neither be lost nor done twice."""

from typing import Final

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.workspace_tools import workspace_tools

STEPS: Final = 4
DONE: Final = {"log.txt": "".join(f"{number}\n" for number in range(STEPS)), "src/here": "at home\n"}
"""What the files are in the end."""


async def code(io: IO, prompt: str) -> object:
    """Append to a file, in a directory that the shell has gone to, and read it all back."""
    await io.tool("bash", command="mkdir -p src; cd src; at='at home'")
    for number in range(STEPS):
        await io.tool(
            "bash",
            command=f"for word in half {number}; do echo $word >> ../log.txt; done; sed -i /half/d ../log.txt",
        )
    await io.tool("bash", command='echo "$at" > here')
    return await io.tool("bash", command="cat ../log.txt here; pwd")


def coder() -> Agent:
    """By the name under which drivers offer it."""
    return Agent("coder", Loop(code), tools=workspace_tools())
