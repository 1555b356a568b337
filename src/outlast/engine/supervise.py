"""Start the supervisor by the path of this file: `python -I -S supervise.py …`.

Nothing else of outlast is imported, and no `site`: a supervisor stands before every worker and every attempt,
so its start is paid for each time. `python -m outlast.engine.supervisor` does the same, more slowly.
"""

# ruff: noqa: PTH100, PTH120
# pathlib would double the start-up time.

import importlib
import os
import sys
import types


def main() -> int:
    """Run the supervisor with this process's arguments. Returns the exit status."""
    here = os.path.dirname(os.path.abspath(__file__))
    for name, directory in (("outlast", os.path.dirname(here)), ("outlast.engine", here)):
        package = types.ModuleType(name)
        package.__path__ = [directory]
        sys.modules[name] = package
    supervisor = importlib.import_module("outlast.engine.supervisor")
    return int(supervisor.main(sys.argv[1:]))


if __name__ == "__main__":
    os._exit(main())  # nothing to finalize, and somebody waits for the lock
