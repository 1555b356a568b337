"""`outlast serve` beside the runs: a browser comes to it, and the forge."""

import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.cli.argv import SELF
from outlast.cli.text import short
from outlast.errors import HarnessError

_LINE: Final = 1 << 20


class Served(msgspec.Struct):
    """What `outlast serve` says first."""

    url: str
    link: str
    token: str


@asynccontextmanager
async def open_door(directory: Path, environ: Mapping[str, str]) -> AsyncGenerator[Served]:
    """The server, in a process of its own, as long as the context lasts.

    Raises:
        HarnessError: it does not start.
    """
    with (directory / "serve.log").open("wb") as log:
        process = await anyio.open_process(
            [*SELF, "serve", "--port", "0", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(environ),
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        try:
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", _LINE)
        except (anyio.EndOfStream, anyio.IncompleteRead):
            text = (directory / "serve.log").read_text(encoding="utf-8", errors="replace")
            raise HarnessError(
                harness="outlast serve", reason=f"it did not start: {short(text, 400)}"
            ) from None
        yield msgspec.json.decode(line, type=Served)
    finally:
        with anyio.CancelScope(shield=True):
            process.terminate()
            await process.wait()
            await process.aclose()
