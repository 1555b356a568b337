"""Codex alone: `codex app-server` with the adapter's configuration, without hooks and our tools; nothing is asked."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.bare.program import Spot, Started, Watch, over_too_early
from outlast.adapters.codex import launch
from outlast.adapters.codex.versions import installed
from outlast.ids import stable_uuid
from tests.harnesses.codex import MODEL


class CodexAlone:
    """A client of its app-server that starts a thread and a turn."""

    def lay_out(self, spot: Spot) -> None:
        started = _launch(spot)
        started.codex_home.mkdir(parents=True)
        for name, text in launch.files(started).items():
            if name != "hooks.json":
                (started.codex_home / name).write_text(text, encoding="utf-8")

    def argv(self, spot: Spot) -> Sequence[str]:
        return launch.argv(_launch(spot))

    def environment(self, spot: Spot) -> Mapping[str, str]:
        return launch.environment(_launch(spot), os.environ)

    async def take_turn(self, started: Started, spot: Spot, prompt: str, watch: Watch) -> None:
        client = Client(started, watch)
        about = {"name": "bench", "title": None, "version": "1"}
        await client.call("initialize", {"clientInfo": about, "capabilities": {"experimentalApi": True}})
        await started.write(b'{"method":"initialized"}\n')
        told = dict(launch.thread_params(_launch(spot), spot.cwd))
        del told["threadId"], told["excludeTurns"]
        thread = (await client.call("thread/start", {**told, "approvalPolicy": "never"}))["thread"]["id"]
        said = [{"type": "text", "text": prompt}]
        await client.call("turn/start", {"threadId": thread, "input": said})
        await client.turn_over()


class Client:
    """Asks one thing at a time."""

    def __init__(self, started: Started, watch: Watch) -> None:
        self._started = started
        self._lines: AsyncIterator[bytes] = started.lines(watch)
        self._last = 0
        self._turn: dict[str, Any] | None = None

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask, and read up to the answer."""
        self._last += 1
        asked = {"id": self._last, "method": method, "params": params}
        await self._started.write(msgspec.json.encode(asked) + b"\n")
        async for message in self._messages():
            if message.get("id") == self._last and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"Codex without outlast: {method}: {message['error']}")
                return message["result"]
        raise over_too_early("Codex")

    async def turn_over(self) -> None:
        """Read up to the end of the turn."""
        if self._turn is None:
            async for _ in self._messages():
                if self._turn is not None:
                    break
        if self._turn is None:
            raise over_too_early("Codex")
        if self._turn.get("status") != "completed":
            raise RuntimeError(f"Codex without outlast failed: {self._turn}")

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        async for line in self._lines:
            message = msgspec.json.decode(line)
            if message.get("method") == "turn/completed":
                self._turn = message["params"]["turn"]
            yield message


def _launch(spot: Spot) -> launch.Launch:
    return launch.Launch(
        program=installed().program,
        thread=stable_uuid("bare", str(spot.home)),
        home=spot.home,
        door=spot.door,
        model=MODEL,
        tool_home=spot.user,
    )
