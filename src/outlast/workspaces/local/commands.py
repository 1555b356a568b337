"""Commands in a directory of this machine, which end with whoever waits for them.

What a command writes comes through two named pipes, so that one that writes faster than it is read has to wait: in a
file it would fill the disk, and whoever reads on to its end would never come to it.
"""

import os
import tempfile
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from outlast.groups import task_group
from outlast.workspace import Command, Ran
from outlast.workspaces.virtual.output import Stream

if TYPE_CHECKING:  # an adapter names workspaces
    from outlast.adapter import Processes

BASH: Final = "/bin/bash"
_WRAP: Final = 'exec </dev/null; ( eval "$3" ) >"$1" 2>"$2"'
TIMED_OUT: Final = 124
_PIECE: Final = 1 << 16


async def run(command: Command, processes: "Processes", cwd: Path, env: Mapping[str, str]) -> Ran:
    """Run it; what it started and left behind is dead when this returns."""
    with tempfile.TemporaryDirectory(prefix="outlast-") as scratch:
        out, err = (_Pipe(Path(scratch) / name, command.show) for name in ("stdout", "stderr"))
        argv = [BASH, "-c", _WRAP, "outlast", str(out.path), str(err.path), command.text]
        status = TIMED_OUT
        try:
            with anyio.move_on_after(command.timeout_s) as limit:
                async with (
                    processes.start(argv, env={**env, **command.env}, cwd=cwd / command.cwd) as process,
                    task_group() as tasks,
                ):
                    tasks.start_soon(out.follow)
                    tasks.start_soon(err.follow)
                    await process.close_stdin()
                    status = await process.wait()
                    tasks.cancel_scope.cancel()
            for pipe in (out, err):
                pipe.end()
        finally:
            out.close()
            err.close()
        cut = out.stream.cut + err.stream.cut
        return Ran(status, out.stream.text(), err.stream.text(), cut, limit.cancelled_caught)


class _Pipe:
    """One stream of a command."""

    def __init__(self, path: Path, show: Callable[[str], None] | None) -> None:
        self.path = path
        self.stream = Stream()
        self._show = show
        self._decoder = getincrementaldecoder("utf-8")("replace")
        os.mkfifo(path, 0o600)
        # Open for both, it has no end before we say so, and whoever opens it to write does not wait for us.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    async def follow(self) -> None:
        """Read what comes, until cancelled."""
        while True:
            await anyio.wait_readable(self._fd)
            self._read()

    def end(self) -> None:
        """Nobody writes any more: read what is left, which is no more than a pipe holds."""
        while self._read():
            pass
        self._put(self._decoder.decode(b"", final=True))

    def close(self) -> None:
        """Read nothing more."""
        os.close(self._fd)

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, _PIECE)
        except BlockingIOError:
            return False
        self._put(self._decoder.decode(data))
        return True

    def _put(self, text: str) -> None:
        self.stream.add(text)
        if self._show is not None and text:
            self._show(text)
