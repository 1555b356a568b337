"""Finds agents: built-in ones by entry point, an application's as `module:object`."""

import importlib
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

from outlast.adapter import Adapter, Agent
from outlast.errors import BadInput, HarnessMissing, NotFound

GROUP = "outlast.adapters"


def built_in(name: str) -> Agent:
    """The agent that is just a harness, by its name.

    Raises:
        NotFound: there is no such harness.
        HarnessMissing: its packages are not installed.
    """
    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                adapter: Adapter = point.load()()
            except ImportError as error:
                raise HarnessMissing(
                    harness=name, install=f"pip install 'outlast[{name}]' ({error.name} is missing)"
                ) from error
            return Agent(name, adapter)
    known = ", ".join(sorted(point.name for point in entry_points(group=GROUP)))
    raise NotFound(detail=f"There is no agent {name!r}. Built in are: {known}. Your own: module:object.")


def of_application(reference: str) -> Agent:
    """The agent at `module:object`, looked for in the working directory too.

    Raises:
        BadInput: it cannot be imported or is no `Agent`.
    """
    module, colon, attribute = reference.partition(":")
    if not colon:
        raise BadInput(detail=f"{reference!r} is not module:object. Example: shop.agents:support")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadInput(detail=f"{reference!r} cannot be loaded: {error}") from error
    if not isinstance(found, Agent):
        raise BadInput(detail=f"{reference!r} is {type(found).__name__}, not an outlast.Agent.")
    return found


def all_agents(references: tuple[str, ...]) -> Mapping[str, Agent]:
    """Every built-in agent that is installed, and the application's named ones."""
    agents: dict[str, Agent] = {}
    for point in entry_points(group=GROUP):
        try:
            agents[point.name] = built_in(point.name)
        except HarnessMissing:
            continue
    for reference in references:
        agent = of_application(reference)
        agents[agent.name] = agent
    return agents
