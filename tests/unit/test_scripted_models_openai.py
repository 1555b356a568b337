import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from outlast.testing.models import ScriptedModels, parse_script
from tests.unit.plain_messages import assistant, text, user

TOOLS = {
    "thinking": "hm hm",
    "text": "I look.\n  Twice ",
    "tools": [{"name": "Bash", "input": {"command": "ls " + "x" * 100}}, {"name": "Read"}],
    "usage": {"input_tokens": 10, "output_tokens": 8, "cache_read_tokens": 5, "cache_write_tokens": 2},
}
USAGE = {
    "prompt_tokens": 17,
    "completion_tokens": 8,
    "total_tokens": 25,
    "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 2},
}
SAYS = {"text": "one two three"}


@asynccontextmanager
async def serving(*steps: dict[str, Any]) -> AsyncGenerator[tuple[ScriptedModels, httpx.AsyncClient]]:
    script = parse_script({"conversations": {"main": list(steps)}})
    async with (
        ScriptedModels.serve(script) as server,
        httpx.AsyncClient(base_url=server.base_url, timeout=10, trust_env=False) as client,
    ):
        yield server, client


async def post(client: httpx.AsyncClient, *messages: dict[str, Any], **more: Any) -> httpx.Response:
    said = [{"role": "system", "content": "[script:other]"}, *(messages or [user("go on [script:main]")])]
    return await client.post("/v1/chat/completions", json={"model": "m-1", "messages": said, **more})


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    *frames, done, rest = response.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def rebuilt(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a stream together again, as a client does."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for part in parts:
        for choice in part["choices"]:
            delta = choice["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key) or ""
            for call in delta.get("tool_calls", []):
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append(dict(call) | {"function": dict(call["function"])})
                else:
                    message["tool_calls"][call["index"]]["function"]["arguments"] += call["function"][
                        "arguments"
                    ]
    return message


async def test_a_stream_says_the_step_in_small_chunks_and_what_it_costs_where_that_is_asked_for() -> None:
    async with serving(TOOLS) as (_, client):
        response = await post(client, stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-request-id"]
    parts = chunks(response)
    assert len({(part["id"], part["model"], part["object"]) for part in parts}) == 1
    message = rebuilt(parts)
    assert (message["reasoning_content"], message["content"]) == (TOOLS["thinking"], TOOLS["text"])
    first, second = message["tool_calls"]
    assert json.loads(first["function"]["arguments"]) == {"command": "ls " + "x" * 100}
    assert (second["function"], first["id"] != second["id"]) == ({"name": "Read", "arguments": "{}"}, True)
    *_, ending, usage = parts
    assert ending["choices"][0]["finish_reason"] == "tool_calls"
    assert (usage["choices"], usage["usage"]) == ([], USAGE)
    assert all(part["usage"] is None for part in parts[:-1])


async def test_a_stream_tells_no_usage_where_nobody_asked() -> None:
    async with serving(SAYS) as (server, client):
        parts = chunks(await post(client, stream=True))
        assert "usage" not in parts[-1]
        assert parts[-1]["choices"][0]["finish_reason"] == "stop"
        assert server.requests[0].billed.output_tokens > 0


async def test_a_whole_body_says_the_same() -> None:
    async with serving(TOOLS) as (_, client):
        said = (await post(client)).json()
        streamed = rebuilt(chunks(await post(client, stream=True)))
    (choice,) = said["choices"]
    message = choice["message"]
    assert (said["object"], said["usage"], choice["finish_reason"]) == (
        "chat.completion",
        USAGE,
        "tool_calls",
    )
    assert (message["content"], message["reasoning_content"]) == (TOOLS["text"], TOOLS["thinking"])
    assert [call["function"] for call in message["tool_calls"]] == [
        call["function"] for call in streamed["tool_calls"]
    ]


async def test_the_step_is_read_from_the_conversation_and_results_of_tools_select_nothing() -> None:
    asked = user([text("go on [script:main]")])
    used = assistant(None) | {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]}
    result = {"role": "tool", "tool_call_id": "1", "content": "[script:other]"}
    async with serving(TOOLS, SAYS) as (server, client):
        said = (await post(client, asked, used, result)).json()
        assert said["choices"][0]["message"]["content"] == "one two three"
        (seen,) = server.requests
        assert (seen.dialect, seen.conversation, seen.step, seen.stream) == ("openai-chat", "main", 1, False)


@pytest.mark.parametrize(
    ("step", "kind", "code"),
    [
        ({"status": 429, "retry_after_s": 3}, "invalid_request_error", "rate_limit_exceeded"),
        ({"status": 503}, "server_error", None),
        (
            {"status": 400, "error_type": "context_length_exceeded"},
            "invalid_request_error",
            "context_length_exceeded",
        ),
    ],
)
async def test_an_error_is_worded_as_the_api_words_it(
    step: dict[str, Any], kind: str, code: str | None
) -> None:
    async with serving({**SAYS, **step, "error_text": "No."}) as (server, client):
        response = await post(client)
        assert response.status_code == step["status"]
        assert response.json()["error"] == {"message": "No.", "type": kind, "param": None, "code": code}
        assert response.headers.get("retry-after") == ("3" if "retry_after_s" in step else None)
        assert (await post(client)).json()["choices"][0]["message"]["content"] == "one two three"
        assert [one.outcome for one in server.requests] == ["error", "completed"]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_is_cut_where_the_script_says_and_the_next_is_whole(stream: bool) -> None:  # noqa: FBT001
    async with serving({**SAYS, "cut_after": 2}) as (server, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await post(client, stream=stream)
        assert (await post(client, stream=stream)).is_success
        assert [one.outcome for one in server.requests] == ["cut", "completed"]
        assert server.requests[0].frames == 2


async def test_a_truncated_stream_ends_before_it_says_that_it_is_whole() -> None:
    async with serving({**SAYS, "garbage": "truncated"}) as (_, client):
        said = (await post(client, stream=True, stream_options={"include_usage": True})).text
    assert "three" in said
    assert "[DONE]" not in said
    assert '"stop"' not in said


@pytest.mark.parametrize(("stop", "reason"), [("length", "length"), ("refusal", "content_filter")])
async def test_an_answer_ends_for_the_reason_that_the_script_gives(stop: str, reason: str) -> None:
    async with serving({**SAYS, "stop": stop}) as (_, client):
        assert (await post(client)).json()["choices"][0]["finish_reason"] == reason


async def test_who_asks_is_no_part_of_what_is_asked() -> None:
    async with serving(SAYS) as (server, client):
        await post(client, user="a", metadata={"x": "1"})
        await post(client, user="b")
        await post(client, temperature=1)
        first, second, third = [one.digest for one in server.requests]
        assert (first == second, first == third) == (True, False)


async def test_what_is_no_request_is_refused() -> None:
    async with serving(SAYS) as (server, client):
        response = await client.post("/v1/chat/completions", content=b'{"messages": 7}')
        assert (response.status_code, "openai-chat" in response.json()["error"]["message"]) == (400, True)
        assert server.requests[0].outcome == "error"


async def test_a_tool_of_a_namespace_is_called_in_it_once_a_search_has_found_it() -> None:
    search = {"name": "tool_search", "input": {"query": "ships"}}
    steps = [{"tools": [search]}, {"tools": [{"name": "mcp__port__moor", "input": {"ship": "a"}}]}]
    async with serving(*steps) as (_, client):
        asked: list[dict[str, Any]] = [{"role": "user", "content": "go on [script:main]"}]
        offered = [{"type": "tool_search", "execution": "client"}]
        for _ in steps:
            body = {"model": "m-1", "input": asked, "tools": offered}
            (item,) = (await client.post("/v1/responses", json=body)).json()["output"]
            space = {
                "type": "namespace",
                "name": "mcp__port",
                "tools": [{"type": "function", "name": "moor"}],
            }
            found = {"type": "tool_search_output", "call_id": item["call_id"], "tools": [space]}
            asked += [item, found]
        first, last = asked[1], asked[3]
        assert (first["type"], first["arguments"]) == ("tool_search_call", {"query": "ships"})
        assert (last["type"], last["namespace"], last["name"]) == ("function_call", "mcp__port", "moor")
