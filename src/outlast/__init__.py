"""Coding agents that outlast the process they run in.

What an application needs has its name here; implementations are imported from where they live
(`outlast.adapters.claude_code`, `outlast.workspaces.local`). Names load what they need on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

# Not lazy: the module `outlast.tool` has the decorator's name, and whoever imports it first would put it in its place.
from outlast.tool import Done, NotDone, Tool, ToolFailed, ToolIO, TryAgain, Unsure, Verdict, tool

if TYPE_CHECKING:
    from outlast.adapter import Agent, Budget
    from outlast.attaching import Attachment
    from outlast.documents import Document, Shape
    from outlast.errors import OutlastError
    from outlast.model import image
    from outlast.opening import open_world
    from outlast.records import Delete, Merge, Set
    from outlast.records.events import Event
    from outlast.session import Outcome, Session, Turn
    from outlast.world import World

__all__ = [
    "Agent",
    "Attachment",
    "Budget",
    "Delete",
    "Document",
    "Done",
    "Event",
    "Merge",
    "NotDone",
    "Outcome",
    "OutlastError",
    "Session",
    "Set",
    "Shape",
    "Tool",
    "ToolFailed",
    "ToolIO",
    "TryAgain",
    "Turn",
    "Unsure",
    "Verdict",
    "World",
    "image",
    "open_world",
    "tool",
]

_HOMES: Final = {
    "Agent": "outlast.adapter",
    "Attachment": "outlast.attaching",
    "Budget": "outlast.adapter",
    "Delete": "outlast.records",
    "Document": "outlast.documents",
    "Event": "outlast.records.events",
    "Merge": "outlast.records",
    "Outcome": "outlast.session",
    "OutlastError": "outlast.errors",
    "Session": "outlast.session",
    "Set": "outlast.records",
    "Shape": "outlast.documents",
    "Turn": "outlast.session",
    "World": "outlast.world",
    "image": "outlast.model",
    "open_world": "outlast.opening",
}


if not TYPE_CHECKING:  # to a type checker a name that is not here must stay an error

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(__all__)
