"""The scripted model server as a program."""

import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec

from outlast.testing.models.script import load_script
from outlast.testing.models.server import ScriptedModels
from outlast.testing.models.spawned import Ready


def run(
    script_path: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Path | None = None,
    *,
    until_eof: bool = False,
) -> None:
    """Serve a script until SIGINT or SIGTERM; print `{"base_url": ...}` as one line when ready.

    Args:
        script_path: the script, `.toml` or JSON.
        host: address to listen on.
        port: port to listen on; 0 for any free one.
        log: a file to append the requests to (`read_log`).
        until_eof: end also when standard input does.

    Raises:
        BadScript: the script file is none.
        CannotListen: the address is not to be had.
        OSError: the log cannot be read or written.
    """
    script = load_script(script_path)

    async def serve() -> None:
        # Told to end as soon as it is ready, it must not be taken by surprise.
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with ScriptedModels.serve(script, host=host, port=port, log=log) as server:
                sys.stdout.buffer.write(msgspec.json.encode(Ready(server.base_url)) + b"\n")
                sys.stdout.buffer.flush()
                await _until_told(signals, until_eof=until_eof)

    anyio.run(serve)


async def _until_told(signals: AsyncIterator[signal.Signals], *, until_eof: bool) -> None:
    async with anyio.create_task_group() as tasks:
        if until_eof:
            tasks.start_soon(_at_eof, tasks.cancel_scope)
        await anext(signals)
        tasks.cancel_scope.cancel()


async def _at_eof(scope: anyio.CancelScope) -> None:
    # Nobody writes to it, so readable means ended.
    await anyio.wait_readable(sys.stdin)
    scope.cancel()
