"""What a loop asks of the sessions that it spawns, and what it is told of their ends."""

from collections.abc import Mapping
from typing import Any, cast

from outlast.adapter import Agent
from outlast.calls import SpawnAsk, ToolResult
from outlast.documents import versions_of
from outlast.errors import ChildFailed, NothingCame
from outlast.tool import result_text
from outlast.workspace import Workspace


def asked_of(
    agent: str | Agent,
    prompt: str,
    timeout_s: float | None,
    workspace: Workspace | None,
    settings: Mapping[str, Any] | None,
) -> SpawnAsk:
    """What is spawned: of an agent that is given its settings, workspace and shapes are recorded."""
    given = dict(settings or {})
    name, adapter, own, shapes = agent, "", {}, {}
    if isinstance(agent, Agent):
        name, adapter, own = agent.name, agent.adapter.name, dict(agent.adapter.settings())
        workspace, shapes = workspace or agent.workspace, versions_of(agent.documents)
    return SpawnAsk(
        agent=cast("str", name),
        prompt=prompt,
        adapter=adapter,
        settings={**own, **given},
        given=given,
        workspace={} if workspace is None else dict(workspace.reference()),
        cwd="" if workspace is None else workspace.cwd,
        placement="any" if workspace is None else workspace.placement,
        documents=shapes,
        for_s=timeout_s,
    )


def result_of(ask: SpawnAsk, ended: ToolResult) -> Any:
    """What the child came to.

    Raises:
        ChildFailed, NothingCame
    """
    if ended.status == "ok":
        return ended.value
    if ended.status == "interrupted":
        raise NothingCame(what=f"the agent {ask.agent!r}", time=f"{ask.for_s or 0.0:g} s")
    value: Any = ended.value
    about = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    said = str(about.get("error") or result_text(cast("object", value)))
    raise ChildFailed(agent=ask.agent, status=str(about.get("status", "failed")), said=said)
