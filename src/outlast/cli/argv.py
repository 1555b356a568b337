"""The command line of outlast, for those who start one as a process of its own."""

import sys
from typing import Final

SELF: Final = (sys.executable, "-P", "-m", "outlast.cli")
"""This very installation. `-P`: the working directory is a user's project, whose modules are not ours."""


def worker_argv(*arguments: str) -> list[str]:
    """The command line of a worker."""
    return [*SELF, "work", *arguments]
