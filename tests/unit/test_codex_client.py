"""The client of Codex's app-server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from outlast.adapters.codex.rpc import AppServer, Failure
from outlast.errors import HarnessError


class Talk:
    """The standard input and output of a process that a test speaks for."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, message: Mapping[str, Any] | None) -> None:
        self._said.put_nowait(None if message is None else msgspec.json.encode(message))

    def say_nonsense(self) -> None:
        self._said.put_nowait(b"warning: no JSON")

    async def write(self, data: bytes) -> None:
        self.heard.put_nowait(msgspec.json.decode(data))

    async def close_stdin(self) -> None:
        self.say(None)

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self._said.get()) is not None:
            yield line

    async def wait(self) -> int:
        return 0

    async def kill(self) -> None:
        self.say(None)

    def errors(self) -> str:
        return "its last words"


class Told:
    """What came from the server."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Mapping[str, Any]]] = []

    async def asked(self, method: str, params: dict[str, Any]) -> Mapping[str, Any] | None:
        return {"echo": params} if method == "known" else None

    async def told(self, method: str, params: dict[str, Any]) -> None:
        self.notes.append((method, params))


def connected() -> tuple[Talk, Told, AppServer]:
    talk, told = Talk(), Told()
    return talk, told, AppServer(talk, told.asked, told.told)


@pytest.mark.anyio
async def test_answers_find_who_asked_in_whatever_order_they_come() -> None:
    talk, told, server = connected()
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(server.read(tasks))
        one = tasks.create_task(server.call("one", {}))
        other = tasks.create_task(server.call("other", {}))
        first, second = await talk.heard.get(), await talk.heard.get()
        talk.say_nonsense()
        talk.say({"method": "noted", "params": {"x": 1}})
        talk.say({"id": second["id"], "result": {"of": second["method"]}})
        talk.say({"id": first["id"], "result": {"of": first["method"]}})
        assert (await one, await other) == ({"of": "one"}, {"of": "other"})
        talk.say(None)
        await reading
    assert told.notes == [("noted", {"x": 1})]


@pytest.mark.anyio
async def test_a_request_of_the_server_is_answered_and_an_unknown_one_refused() -> None:
    talk, _, server = connected()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.read(tasks))
        talk.say({"id": 0, "method": "known", "params": {"y": 2}})
        assert await talk.heard.get() == {"id": 0, "result": {"echo": {"y": 2}}}
        talk.say({"id": 1, "method": "unknown", "params": {}})
        assert (await talk.heard.get())["error"]["code"] == -32601
        talk.say(None)


async def refused(server: AppServer) -> str:
    with pytest.raises(Failure) as refusal:
        await server.call("one", {})
    return str(refusal.value)


async def deserted(server: AppServer) -> str:
    with pytest.raises(HarnessError) as error:
        await server.call("other", {})
    return str(error.value)


@pytest.mark.anyio
async def test_a_refusal_is_told_from_a_server_that_is_gone() -> None:
    talk, _, server = connected()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.read(tasks))
        asking = tasks.create_task(refused(server))
        asked = await talk.heard.get()
        talk.say({"id": asked["id"], "error": {"code": -32600, "message": "no such thread"}})
        assert "no such thread" in await asking
        gone = tasks.create_task(deserted(server))
        await talk.heard.get()
        talk.say(None)
        assert "its last words" in await gone
        assert "its last words" in await deserted(server)


@pytest.mark.anyio
async def test_a_server_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    _, _, server = connected()
    with pytest.raises(HarnessError, match="did not answer one within"):
        await server.call("one", {}, within_s=0.01)
