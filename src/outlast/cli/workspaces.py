"""Which workspace the command line asks for."""

from collections.abc import Sequence
from pathlib import Path

from outlast.adapter import Agent
from outlast.errors import BadInput
from outlast.offering import check_place
from outlast.records import SessionOpened
from outlast.workspace import Workspace
from outlast.workspaces.local import local
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.virtual import virtual


def workspace_of(
    agent: Agent, said: str | None, cwd: Path | None, allow: Sequence[str], machine: str
) -> Workspace:
    """Where a new session works: what is said, else the directory that is named, else the agent's own, else here.

    Args:
        said: `virtual`, `sandbox` or a directory.
        machine: id of this machine.

    Raises:
        BadInput: it cannot be meant.
    """
    if said is not None and cwd is not None:
        raise BadInput(detail="--cwd names a directory of yours, and so may --workspace: give one of them.")
    if allow and said != "sandbox":
        raise BadInput(detail="--allow says what a sandbox may reach: add --workspace sandbox.")
    match said:
        case "virtual":
            found = virtual()
            check_place(agent.name, agent.adapter, found)
            return found
        case "sandbox":
            return sandbox(allow=allow)
        case None if cwd is None and agent.workspace is not None:
            return agent.workspace
        case _:
            return local(said or cwd or Path(), host=machine)


def differs(opened: SessionOpened, said: str) -> str:
    """How the workspace of a session is another than what is said; empty: it is that."""
    kind = str(opened.workspace.get("kind", ""))
    wanted = said if said in {"virtual", "sandbox"} else "local"
    if kind != wanted:
        return f"its workspace is {kind or 'a directory of its own'}, not {wanted}"
    real = "" if wanted != "local" else local(said).cwd
    return f"it works in {opened.cwd}, not {real}" if real not in {"", opened.cwd} else ""


def place(opened: SessionOpened | None) -> str:
    """Where a session works, for its title."""
    if opened is None:
        return ""
    match opened.workspace.get("kind"):
        case "virtual":
            return "virtual files, in the log"
        case "sandbox":
            return f"sandbox ({opened.workspace.get('provider', '')})"
        case "local":
            return f"{opened.cwd} (local: not isolated)"
        case kind:
            return opened.cwd or str(kind or "a directory of its own")
