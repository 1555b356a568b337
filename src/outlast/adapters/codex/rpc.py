"""A small client of Codex's `app-server`: JSON-RPC in lines, on the standard input and output of the process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from outlast.adapter import Process
from outlast.adapters.shapes import Json, as_object
from outlast.errors import HarnessError

_NO_METHOD = -32601


class Failure(Exception):
    """The server refuses a request."""

    def __init__(self, method: str, error: Json) -> None:
        super().__init__(f"{method}: {error.get('message', '')} ({error.get('code', 0)})")


Asked: TypeAlias = Callable[[str, Json], Awaitable[Mapping[str, Any] | None]]
"""Answers a request of the server by its method and parameters; None of one that it does not know."""
Told: TypeAlias = Callable[[str, Json], Awaitable[None]]


class AppServer:
    """The other side of one process.

    Args:
        process: runs `codex app-server`.
        asked: what answers the server's own requests, each in a task of its own.
        told: what is given the server's notifications, one after the other.
    """

    def __init__(self, process: Process, asked: Asked, told: Told) -> None:
        self._process = process
        self._asked = asked
        self._told = told
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._over = ""

    async def call(self, method: str, params: Mapping[str, Any], *, within_s: float = 60.0) -> Json:
        """Ask the server.

        Raises:
            Failure: it refuses.
            HarnessError: it is gone, or does not answer in time.
        """
        if self._over:
            raise HarnessError(harness="Codex", reason=self._over)
        self._last += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = answer
        number = self._last
        try:
            await self._send({"id": number, "method": method, "params": params})
            async with asyncio.timeout(within_s):
                message = await answer
        except TimeoutError:
            raise HarnessError(
                harness="Codex", reason=f"it did not answer {method} within {within_s:g} s"
            ) from None
        finally:
            self._waiting.pop(number, None)
        if "error" in message:
            raise Failure(method, as_object(message["error"]))
        return as_object(message.get("result"))

    async def tell(self, method: str) -> None:
        """Tell the server something that it does not answer."""
        await self._send({"method": method})

    async def read(self, tasks: asyncio.TaskGroup) -> None:
        """Read what the server says until it says nothing more; its requests are answered in `tasks`."""
        async for line in self._process.lines():
            message = as_object(_decoded(line))
            if "method" in message and "id" in message:
                tasks.create_task(self._answer(message))
            elif "method" in message:
                await self._told(str(message["method"]), as_object(message.get("params")))
            elif (waiting := self._waiting.get(message.get("id", 0))) is not None and not waiting.done():
                waiting.set_result(message)
        self._end(f"it ended, and said no more. {self._process.errors()}")

    def _end(self, why: str) -> None:
        self._over = why
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HarnessError(harness="Codex", reason=why))

    async def _answer(self, message: Json) -> None:
        method = str(message["method"])
        result = await self._asked(method, as_object(message.get("params")))
        if result is None:
            error = {"code": _NO_METHOD, "message": f"outlast does not answer {method}"}
            await self._send({"id": message["id"], "error": error})
        else:
            await self._send({"id": message["id"], "result": result})

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._process.write(msgspec.json.encode(message) + b"\n")


def _decoded(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
