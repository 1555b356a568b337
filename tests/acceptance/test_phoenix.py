"""Against a real Phoenix: the spans of a turn whose worker was killed, beneath one another, with tokens and money."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from outlast.adapter import Agent
from outlast.adapters.assistant import Assistant
from outlast.clock import SystemClock
from outlast.gate import Point
from outlast.model import Answer, AssistantMessage, TextPart, ToolCallPart
from outlast.records import Usage
from outlast.telemetry.otlp import open_otlp
from outlast.telemetry.wishes import Wish
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolIO, tool
from outlast.worlds.memory import open_memory
from tests.traced import Kept
from tests.unit.engine_desk import Desk, opened
from tests.unit.listed_model import Listed

pytestmark = [pytest.mark.full, pytest.mark.phoenix, pytest.mark.timeout(600)]
PHOENIX = Path(__file__).parents[2] / ".cache/phoenix/bin/phoenix"
READY = b"Application startup complete"
MODEL = "claude-sonnet-4-5"


class Priced(Listed):
    """A model that Phoenix knows the price of."""

    name = MODEL
    provider = "anthropic"


@tool(replay="keyed")
async def look(io: ToolIO) -> str:
    """Look."""
    return "seen"


def _agent() -> Agent:
    usage = Usage(1000, 200, 3000, 0, 0.0069)
    asked = Answer(
        message=AssistantMessage((ToolCallPart("call-1", "look"),)), stop="tools", usage=usage, model=MODEL
    )
    said = Answer(message=AssistantMessage((TextPart("It is there."),)), stop="end", usage=usage, model=MODEL)
    return Agent("support", Assistant(Priced(asked, said)), tools=[look])


@asynccontextmanager
async def phoenix(tmp_path: Path) -> AsyncGenerator[str]:
    """Its address, while it runs."""
    if not PHOENIX.exists():
        pytest.fail("Phoenix is not installed: make phoenix")
    ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    http, grpc = (port.getsockname()[1] for port in ports)
    for port in ports:
        port.close()
    own = {"PHOENIX_WORKING_DIR": str(tmp_path), "PHOENIX_TELEMETRY_ENABLED": "false", "HOME": str(tmp_path)}
    env = {
        **os.environ,
        **own,
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": f"{http}",
        "PHOENIX_GRPC_PORT": f"{grpc}",
    }
    process = await asyncio.create_subprocess_exec(
        PHOENIX, "serve", env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(300):
            while READY not in (line := await process.stdout.readline()):
                assert line, "Phoenix ended before it was ready"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.stdout.read)  # what it goes on saying must not hold it up
            yield f"http://127.0.0.1:{http}"
            process.kill()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _found(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """The spans that it shows, once there are so many: it takes them in behind its answer."""
    async with asyncio.timeout(30):
        while True:
            answer = await client.get("/v1/projects/default/spans", params={"limit": 100})
            if answer.is_success and len(found := answer.json()["data"]) >= count:
                return found
            await asyncio.sleep(0.1)


async def test_phoenix_shows_a_killed_turn_as_one_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, agent = Kept(), _agent()
    async with (
        phoenix(tmp_path) as address,
        open_memory() as world,
        httpx.AsyncClient(base_url=address) as client,
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{address}/v1/traces")
        await opened(world, agent)
        mortal = MortalWorld(world)
        gate = DeathGate(Spot(Point.IN_EFFECT, "keyed", 1), mortal)
        struck = Desk(mortal, gate=gate, name="dead", collector=kept)
        with pytest.raises(Killed):
            await struck.work(agent)
        heir = Desk(world, dead=frozenset({"dead"}), collector=kept)
        await heir.work(agent)
        wanted = {f"{span.id:016x}": span for span in kept.spans}
        async with open_otlp(Wish("otlp", words=True), SystemClock(), "w-1", answer_s=30.0) as collector:
            for _ in range(2):  # whatever is sent again is there already
                assert await collector.collect(world, kept.stories[0].settled) == ""
        found = await _found(client, len(wanted))
        assert sorted(one["context"]["span_id"] for one in found) == sorted(wanted)
        for one in found:
            parent = wanted[one["context"]["span_id"]].parent
            assert one["parent_id"] == (None if parent is None else f"{parent.span:016x}")
            assert one["context"]["trace_id"] == f"{kept.spans[0].trace:032x}"
        kinds = {one["name"]: one["span_kind"] for one in found}
        assert (kinds["invoke_agent support"], kinds[f"chat {MODEL}"], kinds["execute_tool look"]) == (
            "AGENT",
            "LLM",
            "TOOL",
        )
        chats = [one["attributes"] for one in found if one["span_kind"] == "LLM"]
        assert [one["llm.token_count.total"] for one in chats] == [4200, 4200]
        assert {one["llm.model_name"] for one in chats} == {MODEL}
        lost = [one["name"] for one in found if one["status_message"] == "worker_lost"]
        assert sorted(lost) == ["attempt 1", "execute_tool look"]
        assert any("It is there." in str(one) for one in chats)
        query = "{ projects { edges { node { costSummary { total { cost tokens } } } } } }"
        told = (await client.post("/graphql", json={"query": query})).json()
        (project,) = told["data"]["projects"]["edges"]
        total = project["node"]["costSummary"]["total"]
        assert total["tokens"] == 8400
        assert total["cost"] > 0
