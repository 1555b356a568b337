"""Starts the keeper by the path of its directory, without anything else of outlast and without `site`."""

# ruff: noqa: PTH100, PTH120
# pathlib would double the start-up time.

import os
import sys


def main() -> int:
    """Returns the exit status."""
    here = os.path.dirname(os.path.abspath(__file__))
    for name in ("outer", "bubblewrap", "sandbox", "workspaces", "outlast"):
        path = ["outlast", "workspaces", "sandbox", "bubblewrap", "outer"]
        package = type(sys)(".".join(path[: path.index(name) + 1]))
        package.__path__ = [here]
        sys.modules[package.__name__] = package
        here = os.path.dirname(here)
    # Not `importlib.import_module`: what that loads costs more than all of this.
    keeping = __import__("outlast.workspaces.sandbox.bubblewrap.outer.keeping", fromlist=["main"])
    return int(keeping.main())


if __name__ == "__main__":
    os._exit(main())
