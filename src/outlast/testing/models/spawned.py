"""The scripted model server as a process of its own, and what its owner holds of it."""

import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import httpx
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.testing.models.errors import NotReady
from outlast.testing.models.ledger import RequestRecord
from outlast.testing.models.script import Script

_READY_S: Final = 20.0
_ASK_S: Final = 10.0


class Ready(msgspec.Struct, frozen=True):
    """The line that the process prints when it listens."""

    base_url: str


class _Requests(msgspec.Struct, frozen=True):
    requests: tuple[RequestRecord, ...]


class SpawnedModels:
    """A scripted model server in another process.

    Attributes:
        base_url: where it listens.
        pid: its process.
    """

    def __init__(self, base_url: str, pid: int, client: httpx.AsyncClient) -> None:
        self.base_url = base_url
        self.pid = pid
        self._client = client

    async def requests(self) -> tuple[RequestRecord, ...]:
        """Ask it for every request that reached it, by number.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        response = await self._client.get("/_script/requests")
        return msgspec.json.decode(response.raise_for_status().content, type=_Requests).requests

    async def body(self, n: int) -> bytes:
        """Ask it for the body of request `n`.

        Raises:
            httpx.HTTPError: it does not answer, or has no such body.
        """
        response = await self._client.get(f"/_script/requests/{n}/body")
        return response.raise_for_status().content


@asynccontextmanager
async def spawn_models(
    script: Script | Path, *, port: int = 0, log: Path | None = None
) -> AsyncGenerator[SpawnedModels]:
    """Start a scripted model server as a process of its own, and kill it when the block ends.

    It ends by itself when this process does, however that comes about.

    Args:
        script: what to say, or the file that says it.
        port: port to listen on; 0 for any free one.
        log: a file to append the requests to (`read_log`).

    Raises:
        NotReady: it did not come up; its standard error, which is this process's, says why.
    """
    with tempfile.TemporaryDirectory(prefix="outlast-script-") as scratch:
        path = script
        if isinstance(path, Script):
            path = Path(scratch, "script.json")
            path.write_bytes(msgspec.json.encode(script))
        options = ["--port", str(port), "--until-eof", *(["--log", str(log)] if log else [])]
        command = [sys.executable, "-m", "outlast.testing.models", str(path), *options]
        # The pipe at its standard input is the leash: it breaks when this process ends.
        process = await anyio.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
        )
        try:
            base_url = await _base_url(process)
            async with httpx.AsyncClient(base_url=base_url, timeout=_ASK_S, trust_env=False) as client:
                yield SpawnedModels(base_url, process.pid, client)
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()


async def _base_url(process: anyio.abc.Process) -> str:
    assert process.stdout is not None
    try:
        with anyio.fail_after(_READY_S):
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 4096)
    except TimeoutError as error:
        raise NotReady(how=f"took more than {_READY_S:g} s") from error
    except (anyio.IncompleteRead, anyio.EndOfStream) as error:
        raise NotReady(how=f"ended with {await process.wait()}") from error
    return msgspec.json.decode(line, type=Ready).base_url
