"""One process of Claude Code that two read and write: the driver, and a client of the Claude Agent SDK.

What Claude Code says both hear, with one exception: whether a tool may run it asks the driver first. Only what the log
lets run reaches the user's own `can_use_tool`, which may say no, and may not change what runs.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, cast

import msgspec
from claude_agent_sdk import Transport

from outlast.adapter import Process
from outlast.adapters.claude_code import stream
from outlast.errors import HarnessError

CHANGED: Final = (
    "This call may not run: can_use_tool changed its arguments, and the log has those of the model."
)
_END: Final = b""


class SharedProcess:
    """The process as its driver has it (`outlast.adapter.Process`)."""

    def __init__(self, process: Process, *, asks_user: bool) -> None:
        self._process = process
        self._asks_user = asks_user
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        """What the client is to hear."""
        self._asked: dict[str, tuple[bytes, Mapping[str, Any]]] = {}
        """By request: a question whether a tool may run, and the tool's arguments."""

    async def pump(self) -> None:
        """Hear the process to its end."""
        try:
            async for line in self._process.lines():
                self._said.put_nowait(line)
                event = stream.read(line)
                if isinstance(event, stream.Asked):
                    self._asked[event.request] = (line, event.arguments)
                else:
                    self.heard.put_nowait(line)
        finally:
            self._said.put_nowait(_END)
            self.heard.put_nowait(_END)

    async def lines(self) -> AsyncIterator[bytes]:
        while line := await self._said.get():
            yield line

    async def write(self, data: bytes) -> None:
        request, response = _answered(data)
        if self._asks_user and request in self._asked and response.get("behavior") == "allow":
            self.heard.put_nowait(self._asked[request][0])
            return
        await self._process.write(data)

    async def write_as_client(self, data: bytes) -> None:
        """What the client says."""
        request, response = _answered(data)
        if request in self._asked and response.get("behavior") == "allow":
            line, arguments = self._asked.pop(request)
            wanted = response.get("updatedInput")
            if wanted is not None and wanted != arguments:
                asked = stream.read(line)
                assert isinstance(asked, stream.Asked)  # it was when it came
                data = stream.deny(asked, CHANGED)
        await self._process.write(data)

    async def close_stdin(self) -> None:
        await self._process.close_stdin()

    async def wait(self) -> int:
        return await self._process.wait()

    async def kill(self) -> None:
        await self._process.kill()

    def errors(self) -> str:
        return self._process.errors()


class SharedTransport(Transport):
    """The process as a client of the Claude Agent SDK has it; who started it also ends it."""

    def __init__(self, process: SharedProcess) -> None:
        self._process = process
        self._open = True

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        try:
            await self._process.write_as_client(data.encode())
        except HarnessError:
            self._open = False  # it has ended; its driver says why

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while line := await self._process.heard.get():
            try:
                said = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(said, dict):
                yield cast("dict[str, Any]", said)
        self._open = False

    async def end_input(self) -> None:
        pass

    async def close(self) -> None:
        self._open = False

    def is_ready(self) -> bool:
        return self._open


def _answered(data: bytes) -> tuple[str, Mapping[str, Any]]:
    """The request that a line answers, and with what; nothing of any other line."""
    said = msgspec.json.decode(data, type=dict[str, Any])
    if said.get("type") != "control_response":
        return "", {}
    reply: dict[str, Any] = said.get("response") or {}
    return str(reply.get("request_id", "")), reply.get("response") or {}
