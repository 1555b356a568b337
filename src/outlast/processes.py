"""Programs that run beneath a worker, as adapters and workspaces see them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol


class Process(Protocol):
    """A harness process under supervision: it and all its descendants die with the worker."""

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    def lines(self) -> AsyncIterator[bytes]:
        """Lines of its standard output, without their ends; up to 64 MB each."""
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
