"""Programs that run beneath a worker, as adapters and workspaces see them."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

_LISTENS: Final = re.compile(rb"^[^{]*\blistening on http://(?:127\.0\.0\.1|localhost):(\d{1,5})/?\s*$")
_LONGEST: Final = 500


def said_port(line: bytes) -> re.Match[bytes] | None:
    """Where a line says at which port of its loopback a program listens: group 1.

    In no other form is it believed: who could have another address asked, could have the worker ask any. Where the
    loopback of a program is not ours, its lines come with the port that leads there (`Process.lines`).
    """
    return _LISTENS.search(line) if len(line) <= _LONGEST else None


class Process(Protocol):
    """A harness process under supervision: it and all its descendants die with the worker."""

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    def lines(self) -> AsyncIterator[bytes]:
        """Lines of its standard output, without their ends; up to 64 MB each. See `said_port`."""
        ...

    async def wait(self) -> int: ...

    async def kill(self) -> None:
        """SIGKILL to the whole tree; returns once it is proved dead."""
        ...

    def errors(self) -> str:
        """The last 8 KB of its standard error."""
        ...


class Processes(Protocol):
    """How an adapter starts its harness."""

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AbstractAsyncContextManager[Process]: ...
