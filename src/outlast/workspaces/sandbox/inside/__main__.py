"""Starts the supervisor by the path of its directory or archive, without the rest of outlast and without `site`."""

# ruff: noqa: PTH120
# pathlib would double the start-up time.

import importlib
import os
import sys


def main() -> int:
    """Run with this process's arguments. Returns the exit status."""
    here = os.path.dirname(__file__)
    for name in (
        "outlast",
        "outlast.workspaces",
        "outlast.workspaces.sandbox",
        "outlast.workspaces.sandbox.inside",
    ):
        package = type(sys)(name)
        package.__path__ = [here]
        sys.modules[name] = package
    program = importlib.import_module("outlast.workspaces.sandbox.inside.program")
    return int(program.main(sys.argv[1:]))


if __name__ == "__main__":
    os._exit(main())
