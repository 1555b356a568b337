"""Finds agents: built-in ones by entry point, an application's as `module:object`."""

import importlib
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

import click

from outlast.adapter import Adapter, Agent
from outlast.errors import BadInput, HarnessError, HarnessMissing, NotFound
from outlast.plugins import brought

GROUP: Final = "outlast.adapters"
OF_CODE: Final[Mapping[str, tuple[str, str]]] = {
    "acp": ("outlast.adapters.acp", "Acp(['opencode', 'acp'])"),
    "claude-agent-sdk": ("outlast.adapters.claude_code.sdk", "ClaudeAgentSDK(ClaudeAgentOptions(…))"),
    "fx": ("outlast.adapters.acp", "Acp(['fx', 'acp'])"),
    "langgraph": ("outlast.adapters.langgraph", "LangGraph(graph)"),
    "openai-agents": ("outlast.adapters.openai_agents", "OpenAIAgents(agent)"),
    "pydantic-ai": ("outlast.adapters.pydantic_ai", "PydanticAI(agent)"),
    "python": ("outlast.adapters.python", "Loop(function)"),
}
"""Adapters that need more than a name: the module of each, and what makes one."""
_OF_CODE: Final = (
    "{name!r} is no agent by its name alone: it is made of code of yours. Write `from outlast import Agent`, "
    "`from {module} import {made}` and `mine = Agent('mine', {how})` into a module, say shop.py, and name that: "
    "outlast run shop:mine."
)


def built_in_names() -> list[str]:
    """The names of all built-in agents, installed or not."""
    return sorted(brought(GROUP).names)


def built_in(name: str) -> Agent:
    """The agent that is just a harness, by its name.

    Raises:
        NotFound: there is no such harness.
        HarnessMissing: its packages are not installed.
        HarnessError: its adapter cannot be loaded.
    """
    points = brought(GROUP)
    if name not in points.names:
        if name in OF_CODE:
            module, how = OF_CODE[name]
            made = how.partition("(")[0]
            raise NotFound(detail=_OF_CODE.format(name=name, module=module, made=made, how=how))
        known = ", ".join(sorted(points.names))
        raise NotFound(detail=f"There is no agent {name!r}. Built in are: {known}. Your own: MODULE:AGENT.")
    return _agent(points[name])


def _agent(point: EntryPoint) -> Agent:
    return Agent(point.name, _adapter(point))


def _adapter(point: EntryPoint) -> Adapter:
    try:
        return point.load()()
    except ModuleNotFoundError as error:
        install = f"pip install 'outlast[{point.name}]' ({error.name} is missing)"
        raise HarnessMissing(harness=point.name, install=install) from error
    except HarnessError:
        raise
    except Exception as error:
        # Anybody may register an adapter; a broken one must not take the others along.
        raise HarnessError(
            harness=point.name, reason=f"its adapter {point.value} cannot be loaded: {error!r}"
        ) from error


def of_application(reference: str) -> Agent:
    """The agent at `module:object`, looked for in the working directory too.

    Raises:
        BadInput: it cannot be imported or is no `Agent`.
    """
    module, colon, attribute = reference.partition(":")
    if not (colon and module and attribute):
        raise BadInput(detail=f"{reference!r} is not MODULE:AGENT. Example: shop.agents:support")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        # The application's own code runs here; whatever it raises, the person needs to know where.
        raise BadInput(detail=f"{reference!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Agent):
        raise BadInput(detail=f"{reference!r} is of type {type(found).__name__}, not an outlast.Agent.")
    return found


def agent_of(reference: str) -> Agent:
    """A built-in agent by its name, or an application's by `module:object`.

    Raises:
        NotFound, BadInput, HarnessError
    """
    return of_application(reference) if ":" in reference else built_in(reference)


def all_agents(references: Iterable[str]) -> Mapping[str, Agent]:
    """Every built-in agent that can run here, and the application's named ones.

    Raises:
        BadInput: a named one cannot be loaded.
    """
    agents: dict[str, Agent] = {}
    for point in sorted(brought(GROUP), key=lambda point: point.name):
        try:
            agent = _agent(point)
            agent.adapter.check()  # one that is offered and cannot run would take sessions from workers that can
        except HarnessMissing:
            continue
        except HarnessError as error:
            click.echo(f"outlast: not offered: {error}", err=True)
            continue
        agents[agent.name] = agent
    for reference in references:
        agent = of_application(reference)
        agents[agent.name] = agent
    return agents
