"""Starts the supervisor by the path of its directory or archive, without the rest of outlast and without `site`."""

# ruff: noqa: PTH120
# pathlib would double the start-up time.

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
    # Not `importlib.import_module`: what that loads costs more than all of this.
    program = __import__("outlast.workspaces.sandbox.inside.program", fromlist=["main"])
    return int(program.main(sys.argv[1:]))


if __name__ == "__main__":
    os._exit(main())
