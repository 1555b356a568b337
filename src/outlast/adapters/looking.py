"""The files of a session's workspace, as a lane of a loop has them: looked at, and nothing else."""

from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NoReturn

import msgspec

from outlast.adapter import Attempt, Look
from outlast.drive import Entry
from outlast.errors import BadInput, FileMissing, WorkspaceError

Alone = Callable[[str, Awaitable[Any]], Awaitable[Any]]
"""Does one thing of a lane at a time."""
ONLY_LOOKS: Final = (
    "io.workspace only reads: what a loop did by itself could not be told from what a tool did after a crash. Call a "
    "tool for it: await io.tool({tool})."
)


class LaneFiles:
    """Looks as calls of a lane: what the loop saw when the turn first came here, in every attempt.

    Raises (each look): `WorkspaceError`, `FileMissing`, as `outlast.workspace.Files`.
    """

    def __init__(self, attempt: Attempt, lane: str, alone: Alone) -> None:
        self._attempt = attempt
        self._lane = lane
        self._alone = alone

    async def read(self, path: str) -> bytes:
        """The content of a file of up to 1 MB."""
        seen = await self._look("read", path)
        return str(seen["text"]).encode() if "text" in seen else b64decode(seen["base64"])

    async def find(self, path: str) -> Entry | None:
        """What is at `path`; None: nothing."""
        return msgspec.convert((await self._look("find", path))["entry"], Entry | None)

    async def list(self, path: str = "") -> Sequence[Entry]:
        """What is directly in a directory, by name."""
        return msgspec.convert((await self._look("list", path))["entries"], list[Entry])

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> NoReturn:
        """Never: a tool does."""
        raise BadInput(detail=ONLY_LOOKS.format(tool=f'"write", path={path!r}, content=…'))

    async def remove(self, path: str) -> NoReturn:
        """Never: a tool does."""
        raise BadInput(detail=ONLY_LOOKS.format(tool='"bash", command="rm …"'))

    async def _look(self, what: Look, path: str) -> dict[str, Any]:
        seen = await self._alone("workspace", self._attempt.look(what, path, lane=self._lane))
        if "missing" in seen:
            raise FileMissing(path=path)
        if "error" in seen:
            raise WorkspaceError(detail=str(seen["error"]))
        return seen


class LaneWorkspace:
    """The session's workspace outside of a tool."""

    def __init__(self, files: LaneFiles) -> None:
        self.files = files

    async def run(self, text: str, **_: object) -> NoReturn:
        """Never: a tool does."""
        raise BadInput(detail=ONLY_LOOKS.format(tool=f'"bash", command={text[:60]!r}'))
