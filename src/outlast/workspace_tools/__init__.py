"""The tools of a coding agent, on the workspace of its session: `bash`, `read`, `write`, `edit`, `grep`, `glob`, `ls`.

For a loop of one's own and for the `Assistant`:

    Agent("coder", Assistant(model, "You write code."), tools=workspace_tools(), workspace=virtual())

What recovery may do with a call that was open when its worker died depends on where the files are:

* where nothing of an interrupted call is left and no program of a machine runs (`virtual`), every one is `safe`: it
  runs again, on the files as the log has them;
* elsewhere `bash` is looked for by its job: one that goes on is waited for, one that has ended is read back, one that
  never began is run. Where the machine itself is gone it is in doubt, unless it only looks (`outlast.adapters.shell`).
  `write` and `edit` look whether they landed.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from outlast.errors import BadInput
from outlast.tool import Tool
from outlast.workspace_tools.looks import find, list_, search
from outlast.workspace_tools.shell import bash
from outlast.workspace_tools.texts import edit, read, write

__all__ = ["Name", "standing_in", "workspace_tools"]

Name: TypeAlias = Literal["bash", "read", "write", "edit", "grep", "glob", "ls"]

_TOOLS: Final = {one.name: one for one in (bash, read, write, edit, search, find, list_)}


def workspace_tools(only: Collection[Name] | None = None, *, longest_s: float = 600.0) -> Sequence[Tool]:
    """The tools on the session's workspace, for `Agent.tools`.

    Args:
        only: the names of those that are wanted; by default all.
        longest_s: seconds that a command may take; where a worker has less time left, none is begun.

    Raises:
        BadInput: one of them is none.
    """
    unknown = sorted(set(only or ()) - _TOOLS.keys())
    if unknown:
        raise BadInput(
            detail=f"There is no workspace tool {', '.join(unknown)}: there are {', '.join(_TOOLS)}."
        )
    wanted = [tool for name, tool in _TOOLS.items() if only is None or name in only]
    return [replace(tool, within=True, timeout_s=longest_s) for tool in wanted]


def standing_in(tools: Sequence[Tool], *, longest_s: float = 600.0) -> Sequence[Tool]:
    """Tools on the workspace that stand in the place of a harness's own (`outlast.offering`)."""
    return [replace(tool, within=True, stands_in=True, timeout_s=longest_s) for tool in tools]
