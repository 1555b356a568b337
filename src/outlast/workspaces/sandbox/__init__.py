"""Sandboxes: machines that commands of a session run in, made by providers; see `outlast.sandbox`."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.workspaces.boxed.description import Sandboxed, sandbox

__all__ = ["Sandboxed", "sandbox"]


def __getattr__(name: str) -> object:  # loaded on first use: the supervisor in a box begins with this package
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("outlast.workspaces.boxed.description"), name)
