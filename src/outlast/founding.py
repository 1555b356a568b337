"""The first record of a session."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outlast.adapter import Agent
from outlast.clock import Clock
from outlast.documents import versions_of
from outlast.ids import new_id
from outlast.records import SessionOpened
from outlast.workspace import Workspace


def opening_of(
    session: str,
    agent: str | Agent,
    workspace: Workspace | None,
    home: Path | None,
    settings: Mapping[str, Any] | None,
    clock: Clock,
) -> SessionOpened:
    """What opens `session`: of an agent that is given its adapter and settings are written down."""
    if isinstance(agent, Agent):
        name, adapter, own = agent.name, agent.adapter.name, dict(agent.adapter.settings())
        workspace = workspace or agent.workspace
        versions = versions_of(agent.documents)
    else:
        name, adapter, own, versions = agent, "", {}, {}
    return SessionOpened(
        session=session,
        agent=name,
        adapter=adapter,
        settings={**own, **(settings or {})},
        workspace={} if workspace is None else dict(workspace.reference()),
        cwd="" if workspace is None else workspace.cwd,
        home="" if home is None else str(home),
        at_s=clock.now(),
        documents=versions,
        folder=new_id(session),
    )
