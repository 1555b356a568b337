"""What an adapter does whose program can do without tools of its own, so that no machine is needed to hold it.

Where a workspace holds no programs (`virtual`), such a program runs on the worker's own host, in an empty directory.
Its tools for files, commands and the network are taken away, and the worker's stand in their place: under the names and
with the arguments that its model knows, run by the worker, on the session's files. Invariants:

1. The program is started in a way in which it offers its model none of its own tools but those that it keeps.
2. A call of any other is refused: by the log before it begins, and by the adapter's own gate.
3. Nothing of the host's files comes into a prompt: what a program reads by itself of its directory, of those above that
   or of its user's home is switched off.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from outlast.adapter import Adapter
from outlast.errors import BadInput
from outlast.tool import Tool
from outlast.workspace import Workspace

NO_PROGRAMS: Final = (
    "{agent} is a program that needs tools of its own, and a {kind} workspace holds none. Give it sandbox(), where it "
    "is isolated, or local(); in {kind} files work loops of your own, and programs that can be offered our tools "
    "instead: Claude Code, OpenCode and Pi."
)


@runtime_checkable
class Hosts(Protocol):
    """A workspace that knows beforehand whether programs run in it (`Site.hosts_programs`); most do."""

    @property
    def hosts_programs(self) -> bool: ...


@runtime_checkable
class Offers(Protocol):
    """Beside `outlast.adapter.Adapter`: its program can run without tools of its own."""

    @property
    def keeps(self) -> Collection[str]:
        """Names of the tools of its own that it has all the same: they touch no file, command or network."""
        ...

    def offered(self, settings: Mapping[str, Any]) -> Sequence[Tool]:
        """What stands in the place of the others: tools on the workspace (`Tool.within`, `Tool.stands_in`).

        Args:
            settings: the session's.
        """
        ...


def check_place(agent: str, adapter: Adapter, workspace: Workspace) -> None:
    """Return if an agent with this adapter can work there.

    Raises:
        BadInput: it is a program, which the workspace cannot hold.
    """
    holds = workspace.hosts_programs if isinstance(workspace, Hosts) else True
    if not holds and adapter.abilities.program and not isinstance(adapter, Offers):
        raise BadInput(detail=NO_PROGRAMS.format(agent=agent, kind=workspace.kind))


def with_stand_ins(own: Mapping[str, Tool], offered: Sequence[Tool]) -> Mapping[str, Tool]:
    """The tools of an agent, with those that stand in for its harness's.

    An application's tool of such a name stays, but for those on the workspace, which would be offered twice.
    """
    left = {name: tool for name, tool in own.items() if not tool.within}
    names = {tool.name for tool in offered}
    within = {name: tool for name, tool in own.items() if tool.within and name not in names}
    return {**{tool.name: tool for tool in offered}, **within, **left}


def stand_ins(tools: Mapping[str, Tool]) -> Sequence[Tool]:
    """Those of an attempt's tools that stand in for its harness's; none where it has its own."""
    return [tool for tool in tools.values() if tool.stands_in]
