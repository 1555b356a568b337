from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import CallToolResult, TextContent

from outlast.adapter import ToolResult
from outlast.errors import AttemptLost
from outlast.gateway import Limits
from outlast.offers import ASK, DOCUMENT, OFFERED, WAIT
from outlast.tool import Tool, ToolIO, tool
from tests.gateway.reference import MemoryAttempt, PlainDialogue, until
from tests.gateway.stage import Hearing, RawProvider, Reply, Stage, stage

PROVIDER = RawProvider(Reply())


class Bench:
    """Tools, and what holds them up."""

    def __init__(self) -> None:
        self.go_on = anyio.Event()
        self.go_on.set()
        self.ran: list[str] = []

    def tools(self) -> Mapping[str, Tool]:
        @tool
        async def note(io: ToolIO, text: str) -> object:
            """Write a note."""
            self.ran.append(text)
            await self.go_on.wait()
            return ToolResult("error", "No room.") if text == "fail" else {"noted": text}

        return {"note": note}


@asynccontextmanager
async def at_the_tools(
    bench: Bench, limits: Limits | None = None
) -> AsyncGenerator[tuple[Stage, ClientSession]]:
    async with (
        stage(PROVIDER, attempt=MemoryAttempt(bench.tools()), limits=limits) as on,
        client_of(on) as session,
    ):
        yield on, session


@asynccontextmanager
async def client_of(on: Stage) -> AsyncGenerator[ClientSession]:
    headers = {"authorization": f"Bearer {on.door.token}"}
    async with (
        create_mcp_http_client(headers) as http,
        streamable_http_client(on.door.tools_url, http_client=http) as (reading, writing, *_),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


def call(
    name: str, arguments: Mapping[str, Any], call_id: str = "", *, progress: bool = False
) -> dict[str, Any]:
    meta: dict[str, Any] = {"claudecode/toolUseId": call_id} if call_id else {}
    if progress:
        meta["progressToken"] = "p1"
    params = {"name": name, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def posting(on: Stage, message: Mapping[str, Any], token: str | None = None) -> Any:
    headers = {
        "authorization": f"Bearer {token or on.door.token}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
    }
    return on.client.stream("POST", on.door.tools_url, json=message, headers=headers)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_the_tools_of_an_attempt_are_listed_with_their_schema() -> None:
    async with at_the_tools(Bench()) as (on, session):
        (listed,) = (await session.list_tools()).tools
        assert (listed.name, listed.description) == ("note", "Write a note.")
        assert listed.input_schema == dict(on.attempt.tools["note"].schema)


async def test_what_every_program_is_offered_is_described_to_it_whole() -> None:
    async with stage(PROVIDER, attempt=MemoryAttempt(OFFERED)) as on, client_of(on) as session:
        listed = {one.name: one for one in (await session.list_tools()).tools}
    assert list(listed) == [WAIT, ASK, DOCUMENT]
    edits = listed[DOCUMENT].input_schema["properties"]["edits"]
    assert listed[DOCUMENT].input_schema == dict(OFFERED[DOCUMENT].schema)
    assert sorted(edits["items"]["discriminator"]["mapping"]) == ["delete", "merge", "set"]


@pytest.mark.parametrize("key", ["claudecode/toolUseId", "callId"])
async def test_a_call_runs_under_the_harness_own_id(key: str) -> None:
    async with at_the_tools(Bench()) as (on, session):
        result = await session.call_tool("note", {"text": "a"}, meta={key: "t1"})  # pyright: ignore[reportArgumentType] - an open map
        assert (text_of(result), result.is_error) == ('{"noted":"a"}', False)
        assert on.attempt.calls.results["t1"] == ToolResult("ok", {"noted": "a"})


class KnowingDialogue(PlainDialogue):
    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        return f"{name}-{arguments['text']}"


async def test_a_call_that_says_no_id_is_known_by_what_the_dialogue_makes_of_it() -> None:
    attempt = MemoryAttempt(Bench().tools())
    async with stage(PROVIDER, attempt=attempt, dialogue=KnowingDialogue()) as on, client_of(on) as session:
        await session.call_tool("note", {"text": "a"})
        assert on.attempt.calls.results["note-a"] == ToolResult("ok", {"noted": "a"})


async def test_a_result_that_is_not_ok_is_an_error_that_the_model_reads() -> None:
    async with at_the_tools(Bench()) as (_, session):
        result = await session.call_tool("note", {"text": "fail"})
        assert (text_of(result), result.is_error) == ("No room.", True)


async def test_a_call_that_is_settled_is_read_back_and_not_run() -> None:
    bench = Bench()
    async with at_the_tools(bench) as (on, session):
        on.attempt.calls.results["t1"] = ToolResult("in_doubt", "It may have run.")
        result = await session.call_tool("note", {"text": "a"}, meta={"callId": "t1"})
        assert (text_of(result), result.is_error) == ("It may have run.", True)
        assert not bench.ran


async def test_a_client_that_goes_away_cancels_nothing_and_gets_the_outcome_when_it_asks_again() -> None:
    bench = Bench()
    bench.go_on = anyio.Event()
    asked = call("note", {"text": "a"}, "t1", progress=True)
    async with stage(PROVIDER, attempt=MemoryAttempt(bench.tools()), limits=Limits(progress_s=0.02)) as on:
        async with posting(on, asked) as response:
            await anext(response.aiter_raw())
        async with posting(on, asked) as response:
            again = Hearing(response)
            await again.until(b"progress")
            bench.go_on.set()
            assert b"noted" in await again.rest()
        assert bench.ran == ["a"]
        async with posting(on, asked) as later:
            assert b"noted" in await later.aread()
        assert bench.ran == ["a"]


async def test_a_client_that_goes_away_for_good_leaves_a_recorded_outcome() -> None:
    bench = Bench()
    bench.go_on = anyio.Event()
    async with stage(PROVIDER, attempt=MemoryAttempt(bench.tools()), limits=Limits(progress_s=0.02)) as on:
        async with posting(on, call("note", {"text": "a"}, "t1", progress=True)) as response:
            await anext(response.aiter_raw())
        bench.go_on.set()
        await until(lambda: on.attempt.calls.results)
        assert on.attempt.calls.results == {"t1": ToolResult("ok", {"noted": "a"})}


async def test_a_call_that_nothing_names_does_not_run() -> None:
    bench = Bench()
    async with at_the_tools(bench) as (on, session):
        on.dialogue.unnamed = ""
        refused = await session.call_tool("note", {"text": "twice"})
        assert refused.is_error
        assert "did not run" in text_of(refused)
        assert not bench.ran


async def test_a_long_call_gives_signs_of_life() -> None:
    bench = Bench()
    bench.go_on = anyio.Event()
    beats: list[float] = []

    async def beat(progress: float, total: float | None, message: str | None) -> None:
        beats.append(progress)
        if len(beats) == 3:
            bench.go_on.set()

    async with at_the_tools(bench, Limits(progress_s=0.02)) as (_, session):
        result = await session.call_tool("note", {"text": "a"}, progress_callback=beat)
        assert text_of(result) == '{"noted":"a"}'
        assert beats[:3] == [1, 2, 3]


async def test_parallel_calls_do_not_wait_for_one_another() -> None:
    bench = Bench()
    bench.go_on = anyio.Event()
    async with at_the_tools(bench) as (_, session), anyio.create_task_group() as tasks:
        for name in "ab":
            tasks.start_soon(session.call_tool, "note", {"text": name})
        await until(lambda: sorted(bench.ran) == ["a", "b"])
        bench.go_on.set()


async def test_a_lost_attempt_is_told_as_an_error_and_no_call_runs() -> None:
    bench = Bench()
    async with at_the_tools(bench) as (on, session):
        on.attempt.calls.lost = AttemptLost("fenced")
        with pytest.raises(MCPError):
            await session.call_tool("note", {"text": "a"})
        on.attempt.calls.lost = None
        with pytest.raises(MCPError):
            await session.call_tool("note", {"text": "a"})
        assert not bench.ran


async def test_a_call_that_cannot_be_carried_through_says_that_it_may_have_taken_effect() -> None:
    async with at_the_tools(Bench()) as (_, session):
        with pytest.raises(MCPError, match="may have taken effect"):
            await session.call_tool("nothing", {})


async def test_an_unknown_token_sees_no_tools() -> None:
    async with stage(PROVIDER, attempt=MemoryAttempt(Bench().tools())) as on:
        async with posting(on, call("note", {"text": "a"}), token="guessed") as response:
            assert response.status_code == 403
        async with (
            on.gateway.admit(MemoryAttempt(), PlainDialogue()) as door,
            posting(on, call("note", {"text": "a"}, "t1"), token=door.token) as response,
        ):
            assert b"noted" not in await response.aread()


async def test_a_stream_for_nothing_is_not_kept_open() -> None:
    async with stage(PROVIDER) as on:
        response = await on.client.get(
            on.door.tools_url, headers={"authorization": f"Bearer {on.door.token}"}
        )
        assert response.status_code == 405


async def test_a_tool_that_runs_when_the_attempt_ends_is_cut_off() -> None:
    bench = Bench()
    bench.go_on = anyio.Event()
    with anyio.fail_after(5):
        async with stage(PROVIDER) as on:
            attempt = MemoryAttempt(bench.tools())
            async with on.gateway.admit(attempt, PlainDialogue()) as door, anyio.create_task_group() as tasks:
                tasks.start_soon(_ask, on, door.token)
                await until(lambda: bench.ran)
                tasks.cancel_scope.cancel()
            assert not attempt.calls.results


async def test_a_client_that_waits_for_a_tool_when_the_attempt_ends_is_not_left_waiting() -> None:
    bench = Bench()
    bench.go_on = anyio.Event()
    with anyio.fail_after(5):
        async with (
            stage(PROVIDER) as on,
            anyio.create_task_group() as tasks,
            on.gateway.admit(MemoryAttempt(bench.tools()), PlainDialogue()) as door,
        ):
            tasks.start_soon(_ask, on, door.token)
            await until(lambda: bench.ran)


async def _ask(on: Stage, token: str) -> None:
    with suppress(httpx.HTTPError):
        async with posting(on, call("note", {"text": "a"}, "t1"), token=token) as response:
            assert b"noted" not in await response.aread()
