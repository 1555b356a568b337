"""A workspace without a machine: a shell like bash over files in memory, whose changes are in the session's log.

The shell is an interpreter (bashkit) in a process of its own. It knows no files of the host, starts no programs and
has no network. What a call changed is known when the call has ended (`wire.Piece`, `wire.State`), and a process that is
killed is made anew from that: a call is done whole, or not at all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from outlast.workspaces.virtual.description import Virtual, virtual
    from outlast.workspaces.virtual.kind import VirtualKind

__all__ = ["Virtual", "VirtualKind", "virtual"]

# Loaded on first use: the shell's process begins with this package, and needs none of them.
_HOMES: Final = {"Virtual": "description", "VirtualKind": "kind", "virtual": "description"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
