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
    await io.tool("bash", command="mkdir -p src; cd src; said='at home'")
    for number in range(STEPS):
        await io.tool(
            "bash",
            command=f"at=/workspace/log.txt; for word in half {number}; do echo $word >> $at; done; sed -i /half/d $at",
        )
    await io.tool("bash", command='echo "$said" > here')
    return await io.tool("bash", command="cat /workspace/log.txt here; pwd")


def coder() -> Agent:
    """By the name under which drivers offer it."""
    return Agent("coder", Loop(code), tools=workspace_tools())


SECONDS: Final = 4.0
TICKS: Final = 20


async def watch(io: IO, prompt: str) -> object:
    """Run a command that takes a while, between two that are quick."""
    await io.tool("bash", command="echo 0 > ticks")
    said = await io.result(
        "bash",
        {
            "command": f"echo $$ >> pids; for i in $(seq {TICKS}); "
            f"do echo $i >> ticks; sleep {SECONDS / TICKS}; done; echo over"
        },
    )
    return [
        said.status,
        said.value,
        await io.tool("bash", command="cat ticks pids | wc -l; sort -c -n ticks && echo sorted"),
    ]


def watcher() -> Agent:
    """Likewise."""
    return Agent("watcher", Loop(watch), tools=workspace_tools())


class NoGateway:
    """Stands where harnesses would be let in."""

    async def address(self) -> str:
        """Nowhere."""
        return ""
