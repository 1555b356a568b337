"""OpenCode alone: `opencode serve` with the adapter's configuration, without plugin and MCP server; all is allowed."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.bare.program import Spot, Started, Watch, over_too_early
from outlast.adapters.opencode import launch
from outlast.adapters.opencode.client import Client, client_of
from outlast.adapters.opencode.versions import installed
from outlast.adapters.shapes import as_object
from tests.harnesses.opencode import MODEL

LISTENING: Final = re.compile(rb"listening on (http://\S+)")
ALLOWED: Final = [{"permission": "*", "pattern": "*", "action": "allow"}]
PASSWORD: Final = "bench"


class OpenCodeAlone:
    """A client of its server that makes a session, listens to the events and says the prompt."""

    def lay_out(self, spot: Spot) -> None:
        launch.lay_out(_launch(spot))

    def argv(self, spot: Spot) -> Sequence[str]:
        return launch.argv(_launch(spot))

    def environment(self, spot: Spot) -> Mapping[str, str]:
        started = _launch(spot)
        config = dict(launch.config(started))
        del config["plugin"], config["mcp"]
        told = msgspec.json.encode({**config, "permission": {"*": "allow"}}).decode()
        return {**launch.environment(started, os.environ), "OPENCODE_CONFIG_CONTENT": told}

    async def take_turn(self, started: Started, spot: Spot, prompt: str, watch: Watch) -> None:
        lines = started.lines(Watch())
        base_url = await _base_url(lines)
        async with client_of(base_url, PASSWORD) as http, asyncio.TaskGroup() as tasks:
            client = Client(http)
            listened, idle = asyncio.Event(), asyncio.Event()
            beside = [
                tasks.create_task(_drain(lines)),
                tasks.create_task(_listen(client, watch, listened, idle)),
            ]
            await listened.wait()
            session = await client.create("bench", ALLOWED)
            last = await client.say(session, _said(prompt))
            if as_object(last.get("info")).get("error"):
                raise RuntimeError(f"OpenCode without outlast failed: {last}")
            await idle.wait()  # what it has shown of the turn may come behind its answer to us
            for task in beside:
                task.cancel()


async def _base_url(lines: AsyncIterator[bytes]) -> str:
    async for line in lines:
        found = LISTENING.search(line)
        if found is not None:
            return found[1].decode()
    raise over_too_early("OpenCode")


async def _drain(lines: AsyncIterator[bytes]) -> None:
    async for _ in lines:
        pass
    raise over_too_early("OpenCode")


async def _listen(client: Client, watch: Watch, listened: asyncio.Event, idle: asyncio.Event) -> None:
    async for event in client.events():
        listened.set()
        if event.get("type") == "session.idle":
            idle.set()
        watch.see(msgspec.json.encode(event))


def _said(prompt: str) -> Mapping[str, object]:
    model = {"providerID": "anthropic", "modelID": MODEL}
    return {"parts": [{"type": "text", "text": prompt}], "model": model}


def _launch(spot: Spot) -> launch.Launch:
    found = installed()
    return launch.Launch(
        program=found.program,
        version=found.version,
        name="bare",
        home=spot.home,
        door=spot.door,
        password=PASSWORD,
        model=launch.model_name(MODEL),
        tool_home=spot.user,
    )
