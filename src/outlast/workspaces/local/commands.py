"""Commands in a directory of this machine, which end with whoever waits for them."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from outlast.ids import new_id
from outlast.workspace import OUTPUT_LIMIT, Command, Ran

if TYPE_CHECKING:  # an adapter names workspaces
    from outlast.adapter import Processes

BASH: Final = "/bin/bash"
_WRAP: Final = 'exec </dev/null; ( eval "$3" ) 2>"$1"; s=$?; printf "\\n%s\\n" "$2"; exit $s'
"""What ends the output is a line that nobody guesses, so that its last line is known whole, or not ended."""
TIMED_OUT: Final = 124


async def run(command: Command, processes: "Processes", cwd: Path, env: Mapping[str, str]) -> Ran:
    """Run it; what it started and left behind is dead when this returns."""
    token = new_id("end")
    with tempfile.TemporaryDirectory(prefix="outlast-") as scratch:
        errors = Path(scratch) / "stderr"
        argv = [BASH, "-c", _WRAP, "outlast", str(errors), token, command.text]
        said = Said(command)
        status = TIMED_OUT
        with anyio.move_on_after(command.timeout_s) as limit:
            async with processes.start(argv, env={**env, **command.env}, cwd=cwd / command.cwd) as process:
                await process.close_stdin()
                async for line in process.lines():
                    if line == token.encode():
                        break
                    said.line(line)
                status = await process.wait()
        stderr, lost = _ends(errors.read_bytes() if errors.exists() else b"")
        stdout, cut = _ends(said.data)
        return Ran(status, stdout, stderr, cut + lost + said.dropped, limit.cancelled_caught)


class Said:
    """The standard output of a command as it comes."""

    def __init__(self, command: Command) -> None:
        self._show = command.show
        self._first = True
        self.data = bytearray()
        self.dropped = 0

    def line(self, line: bytes) -> None:
        """Take one more line. That it had an end shows when another comes."""
        piece = line if self._first else b"\n" + line
        self._first = False
        self.data += piece
        if len(self.data) > 4 * OUTPUT_LIMIT:  # far beyond what is kept of the end
            half = OUTPUT_LIMIT // 2
            self.dropped += len(self.data) - 3 * half
            self.data[half : len(self.data) - 2 * half] = b""
        if self._show is not None:
            self._show(f"{line.decode(errors='replace')}\n")


def _ends(data: bytes | bytearray) -> tuple[str, int]:
    """The first and the last half of what may be kept, and how much is between."""
    cut = max(0, len(data) - OUTPUT_LIMIT)
    kept = bytes(data) if not cut else bytes(data[: OUTPUT_LIMIT // 2] + data[-(OUTPUT_LIMIT // 2) :])
    return kept.decode(errors="replace"), cut
