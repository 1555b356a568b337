"""Claude Code whose worker never answers what it is asked."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

from outlast.adapter import Process, Processes
from outlast.testing.adapter_contract.spoiled import Around


class SilentWorker(Around):
    """An attempt whose worker never answers the harness's questions."""

    @property
    def processes(self) -> Processes:
        return cast("Processes", self)

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AbstractAsyncContextManager[Process]:
        return self._start(argv, env, cwd)

    @asynccontextmanager
    async def _start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> AsyncGenerator[Process]:
        async with self.attempt.processes.start(argv, env=env, cwd=cwd) as process:
            yield cast("Process", _Silent(process))


class _Silent:
    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)

    async def write(self, data: bytes) -> None:
        if b"control_response" not in data:
            await self._process.write(data)

    def lines(self) -> AsyncIterator[bytes]:
        return self._process.lines()
