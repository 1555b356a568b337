"""Commands in a directory of this machine, which end with whoever waits for them."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from outlast.groups import task_group
from outlast.ids import new_id
from outlast.workspace import Command, Ran
from outlast.workspaces.virtual.output import Stream

if TYPE_CHECKING:  # an adapter names workspaces
    from outlast.adapter import Processes

BASH: Final = "/bin/bash"
_WRAP: Final = 'exec </dev/null; ( eval "$3" ) 2>"$1"; s=$?; printf "\\n%s\\n" "$2"; exit $s'
"""What ends the output is a line that nobody guesses, so that its last line is known whole, or not ended."""
TIMED_OUT: Final = 124
_LOOK_S: Final = 0.1
_PIECE: Final = 1 << 20


async def run(command: Command, processes: "Processes", cwd: Path, env: Mapping[str, str]) -> Ran:
    """Run it; what it started and left behind is dead when this returns."""
    token = new_id("end")
    with tempfile.TemporaryDirectory(prefix="outlast-") as scratch:
        errors = Path(scratch) / "stderr"
        argv = [BASH, "-c", _WRAP, "outlast", str(errors), token, command.text]
        out, err, status = _Lines(command.show), _Tail(errors, command.show), TIMED_OUT
        with anyio.move_on_after(command.timeout_s) as limit:
            async with (
                processes.start(argv, env={**env, **command.env}, cwd=cwd / command.cwd) as process,
                task_group() as tasks,
            ):
                tasks.start_soon(err.follow)
                await process.close_stdin()
                async for line in process.lines():
                    if line == token.encode():
                        break
                    out.add(line)
                status = await process.wait()
                tasks.cancel_scope.cancel()
        out.end(cut_short=limit.cancelled_caught)
        err.read()
        cut = out.stream.cut + err.stream.cut
        return Ran(status, out.stream.text(), err.stream.text(), cut, limit.cancelled_caught)


class _Lines:
    """Standard output, line by line: whether the last was ended shows when the next comes."""

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self.stream = Stream()
        self._show = show
        self._last: bytes | None = None

    def add(self, line: bytes) -> None:
        """One more line."""
        self._put(b"\n")
        self._last = line

    def end(self, *, cut_short: bool) -> None:
        """No more will come; the line before what ends the output was ended by that."""
        self._put(b"\n" if cut_short else b"")

    def _put(self, ending: bytes) -> None:
        if self._last is not None:
            text = (self._last + ending).decode(errors="replace")
            self._last = None
            self.stream.add(text)
            if self._show is not None and text:
                self._show(text)


class _Tail:
    """Standard error, from the file that it is written to."""

    def __init__(self, file: Path, show: Callable[[str], None] | None) -> None:
        self.stream = Stream()
        self._file = file
        self._show = show
        self._at = 0

    async def follow(self) -> None:
        """Read what comes, until cancelled."""
        while True:
            self.read()
            await anyio.sleep(_LOOK_S)

    def read(self) -> None:
        """Read what is new."""
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._at)
            while data := file.read(_PIECE):
                self._at += len(data)
                text = data.decode(errors="replace")
                self.stream.add(text)
                if self._show is not None:
                    self._show(text)
