"""Boxes by bubblewrap: namespaces of Linux on the worker's own machine, made by an ordinary user."""

from outlast.workspaces.sandbox.bubblewrap.provider import Bubblewrap, open_bubblewrap

__all__ = ["Bubblewrap", "open_bubblewrap"]
