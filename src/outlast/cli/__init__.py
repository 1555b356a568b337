"""The command line: the only place that names implementations."""

from outlast.cli.main import main

__all__ = ["main"]
