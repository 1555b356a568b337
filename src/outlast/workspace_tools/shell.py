"""`bash`: a command in the session's workspace."""

from typing import Annotated

import msgspec

from outlast.adapters.shell import judge
from outlast.tool import Done, NotDone, ToolIO, Unsure, Verdict, tool
from outlast.workspace_tools.said import outcome, telling

_Command = Annotated[str, msgspec.Meta(description="A line of shell, or several.", min_length=1)]
_Seconds = Annotated[
    float, msgspec.Meta(description="Seconds after which it is ended; at most 3600.", gt=0, le=3600)
]

GONE = (
    "The machine that it ran on is gone; its files are as before, but nobody knows what it did beyond them."
)


async def _landed(io: ToolIO, command: str, timeout_s: float) -> Verdict:
    known = await io.workspace.knows()
    if known is None:
        return NotDone() if judge(command).policy == "safe" else Unsure(GONE)
    return Done(await _run(io, command, timeout_s)) if known else NotDone()


@telling
async def _run(io: ToolIO, command: str, timeout_s: float) -> str:
    ran = await io.workspace.run(command, timeout_s=timeout_s, show=io.show)
    return outcome(ran, timeout_s)


@tool(name="bash", verify=_landed, timeout_s=600.0)
async def bash(io: ToolIO, command: _Command, timeout_s: _Seconds = 120.0) -> str:
    """Run a command in bash, in the workspace, and return what it wrote and its exit status if that is not 0.

    Long output has its middle left out: narrow it with head, tail or grep.
    """
    return await _run(io, command, timeout_s)
