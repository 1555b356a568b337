"""Asks what bubblewrap can do where this runs. A program: it says one line of JSON."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from outlast.errors import SandboxUnsupported, WorkspaceError
from outlast.sandbox import Spec
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap


async def ask(data: str) -> None:
    with TemporaryDirectory() as directory:
        provider = Bubblewrap(Path(data or directory))
        said: dict[str, object] = {}
        try:
            said["warnings"] = list(await provider.check())
        except SandboxUnsupported as no:
            said["unsupported"] = str(no)
        try:
            async with provider.attach(Spec("box"), 1):
                said["made"] = True
        except WorkspaceError as no:
            said["refused"] = [type(no).__name__, str(no)]
        said["left"] = sorted(path.name for path in Path(directory, "boxes").glob("*"))
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    anyio.run(ask, sys.argv[1] if len(sys.argv) > 1 else "")
