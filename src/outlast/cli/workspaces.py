"""Which workspace the command line asks for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from outlast.adapter import Agent
from outlast.errors import BadInput
from outlast.offering import check_place
from outlast.plugins import brought
from outlast.records import SessionOpened
from outlast.workspace import Workspace
from outlast.workspaces.local import local
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.virtual import virtual

_PROVIDERS: Final = "outlast.sandboxes"
_USUAL: Final = "bubblewrap"


def workspace_of(
    agent: Agent, said: str | None, cwd: Path | None, allow: Sequence[str], machine: str, *, image: str = ""
) -> Workspace:
    """Where a new session works: what is said, else the directory that is named, else the agent's own, else here.

    Args:
        said: `virtual`, `sandbox`, `sandbox:` and a provider, or a directory.
        machine: id of this machine.
        image: of the sandbox's provider.

    Raises:
        BadInput: it cannot be meant.
    """
    if said is not None and cwd is not None:
        raise BadInput(detail="--cwd names a directory of yours, and so may --workspace: give one of them.")
    provider = provider_of(said)
    if allow and not provider:
        raise BadInput(detail="--allow says what a sandbox may reach: add --workspace sandbox.")
    if image and not provider:
        raise BadInput(detail="--image says what a sandbox is made from: add --workspace sandbox:PROVIDER.")
    if provider:
        return sandbox(provider, allow=allow, image=image)
    match said:
        case "virtual":
            found = virtual()
            check_place(agent.name, agent.adapter, found)
            return found
        case None if cwd is None and agent.workspace is not None:
            return agent.workspace
        case _:
            return local(said or cwd or Path(), host=machine)


def provider_of(said: str | None) -> str:
    """The provider of sandboxes that is said; empty: it is no sandbox.

    Raises:
        BadInput: there is none of this name.
    """
    kind, colon, name = (said or "").partition(":")
    if kind != "sandbox":
        return ""
    if not colon:
        return _USUAL
    known = sorted(brought(_PROVIDERS).names)
    if name not in known:
        raise BadInput(
            detail=f"There is no provider of sandboxes called {name!r}; there is {', '.join(known)}."
        )
    return name


def differs(opened: SessionOpened, said: str) -> str:
    """How the workspace of a session is another than what is said; empty: it is that."""
    kind = str(opened.workspace.get("kind", ""))
    provider = provider_of(said)
    wanted = "sandbox" if provider else "virtual" if said == "virtual" else "local"
    has = str(opened.workspace.get("provider", _USUAL))
    if provider and kind == wanted and provider != has:
        return f"its sandbox is of {has}, not of {provider}"
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
