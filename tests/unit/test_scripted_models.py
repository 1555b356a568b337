import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from outlast.testing.models import (
    RequestRecord,
    Script,
    ScriptedModels,
    Step,
    ToolUse,
    Usage,
    parse_script,
    read_log,
)
from tests.unit.plain_messages import assistant, text, user

TOOLS = Step(
    text="I look.\n  Twice ",
    tools=(ToolUse(name="Bash", input={"command": "ls " + "x" * 100}), ToolUse(name="Read")),
)
SAYS = Step(text="one two three four")


def script(*steps: Step, **others: tuple[Step, ...]) -> Script:
    return Script(conversations={"main": steps, **others})


def ask(*messages: dict[str, Any], stream: bool = True, **more: Any) -> dict[str, Any]:
    said = messages or (user("go on [script:main]"),)
    return {"model": "m-1", "max_tokens": 64, "stream": stream, "messages": list(said), **more}


@asynccontextmanager
async def serving(
    what: Script | Path, **options: Any
) -> AsyncGenerator[tuple[ScriptedModels, httpx.AsyncClient]]:
    async with (
        ScriptedModels.serve(what, **options) as server,
        httpx.AsyncClient(base_url=server.base_url, timeout=10, trust_env=False, verify=False) as client,
    ):
        yield server, client


async def post(client: httpx.AsyncClient, body: object) -> httpx.Response:
    return await client.post("/v1/messages?beta=true", json=body)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = []
    for frame in response.text.split("\n\n")[:-1]:
        kind, data = frame.split("\n")
        parsed.append(json.loads(data.removeprefix("data: ")))
        assert kind == f"event: {parsed[-1]['type']}"
    return parsed


def blocks(response: httpx.Response) -> list[dict[str, Any]]:
    """Put a stream together again, as a client does."""
    built: list[dict[str, Any]] = []
    inputs: dict[int, str] = {}
    for event in events(response):
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(built)
                built.append(dict(event["content_block"]))
            case "content_block_delta":
                delta: dict[str, Any] = dict(event["delta"])
                match delta.pop("type"):
                    case "input_json_delta":
                        inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
                    case _:
                        for key, piece in delta.items():
                            built[event["index"]][key] += piece
            case _:
                pass
    for index, joined in inputs.items():
        built[index]["input"] = json.loads(joined)
    return built


async def frames_until_cut(client: httpx.AsyncClient, body: dict[str, Any]) -> bytes:
    received = b""
    try:
        async with client.stream("POST", "/v1/messages", json=body) as response:
            async for chunk in response.aiter_raw():
                received += chunk
    except httpx.RemoteProtocolError:
        return received
    pytest.fail("the response came to a proper end")


def settled(count: int) -> Callable[[Any], bool]:
    return lambda requests: sum(request.outcome != "open" for request in requests) >= count


async def test_a_stream_puts_together_to_what_the_script_says() -> None:
    step = Step(
        thinking="hm, so", text="  Look:\n\n wide  open ", tools=TOOLS.tools, usage=Usage(output_tokens=7)
    )
    async with serving(script(step)) as (_, client):
        response = await post(client, ask())
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    thinking, words, bash, read = blocks(response)
    assert thinking["thinking"] == step.thinking
    assert thinking["signature"]
    assert words == {"type": "text", "text": step.text}
    assert (bash["name"], bash["input"]) == ("Bash", step.tools[0].input)
    assert (read["name"], read["input"]) == ("Read", {})
    first, *_, delta, last = events(response)
    assert first["message"]["model"] == "m-1"
    assert delta["delta"]["stop_reason"] == "tool_use"
    assert delta["usage"]["output_tokens"] == 7
    assert last == {"type": "message_stop"}


async def test_a_whole_body_says_what_the_stream_says() -> None:
    async with serving(script(TOOLS)) as (_, client):
        streamed = blocks(await post(client, ask()))
        whole = (await post(client, ask(stream=False))).json()
    without_ids = [[{**block, "id": None} for block in answer] for answer in (streamed, whole["content"])]
    assert without_ids[0] == without_ids[1]
    assert (whole["type"], whole["role"], whole["stop_reason"]) == ("message", "assistant", "tool_use")


async def test_every_frame_arrives_as_a_chunk_of_its_own() -> None:
    async with (
        serving(script(Step(text="a b c", gap_s=0.01))) as (_, client),
        client.stream("POST", "/v1/messages", json=ask()) as response,
    ):
        chunks = [chunk async for chunk in response.aiter_raw()]
    assert len(chunks) == 9
    assert all(chunk.startswith(b"event: ") and chunk.endswith(b"\n\n") for chunk in chunks)


async def test_tool_ids_are_unique_also_for_the_same_request_sent_twice() -> None:
    async with serving(script(TOOLS)) as (server, client):
        answers = [blocks(await post(client, ask())) for _ in range(2)]
        assert [request.digest for request in server.requests] == [server.requests[0].digest] * 2
    ids = [block["id"] for answer in answers for block in answer if block["type"] == "tool_use"]
    assert len(set(ids)) == 4


async def test_a_server_begun_anew_gives_the_same_request_the_same_ids() -> None:
    answers: list[list[dict[str, Any]]] = []
    for _ in range(2):
        async with serving(script(TOOLS)) as (_, client):
            answers.append(blocks(await post(client, ask())))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("prompt", ["no marker", "[script:nowhere]"])
async def test_a_request_that_selects_no_conversation_is_told_what_there_is(prompt: str) -> None:
    async with serving(script(SAYS)) as (server, client):
        response = await post(client, ask(user(prompt)))
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert "main" in response.json()["error"]["message"]
        assert [(request.outcome, request.conversation) for request in server.requests] == [("error", None)]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"messages": 7}', b"\xff\xfe", b""])
async def test_a_body_that_is_no_request_gets_the_dialects_error_and_is_counted(body: bytes) -> None:
    async with serving(script(SAYS)) as (server, client):
        response = await client.post("/v1/messages", content=body)
        assert response.status_code == 400
        assert response.json()["type"] == "error"
        assert server.find_body(1) == body


@pytest.mark.parametrize("cut_after", [0, 1, 5])
async def test_a_cut_stream_ends_after_so_many_frames_without_its_end(cut_after: int) -> None:
    async with serving(script(Step(text="one two three four", cut_after=cut_after))) as (server, client):
        received = await frames_until_cut(client, ask())
        assert received.count(b"\n\n") == cut_after
        assert [block["text"] for block in blocks(await post(client, ask()))] == ["one two three four"]
        cut, whole = server.requests
    assert (cut.outcome, cut.frames, whole.outcome) == ("cut", cut_after, "completed")
    assert cut.digest == whole.digest


async def test_a_cut_whole_body_ends_before_its_length() -> None:
    async with serving(script(Step(text="one two three", cut_after=1, cut_times=2))) as (server, client):
        for _ in range(2):
            assert await frames_until_cut(client, ask(stream=False))
        assert (await post(client, ask(stream=False))).json()["stop_reason"] == "end_turn"
        assert [request.outcome for request in server.requests] == ["cut", "cut", "completed"]


async def test_a_scripted_error_comes_so_often_and_then_the_answer() -> None:
    step = Step(text="at last", status=529, retry_after_s=3, times=2)
    async with serving(script(step, Step(text="x", status=429, error_type="own", times="always"))) as (
        _,
        client,
    ):
        answers = [await post(client, ask()) for _ in range(3)]
        for _ in range(3):
            refused = await post(client, ask(user("[script:main]"), assistant("a"), user("b")))
            assert (refused.status_code, refused.json()["error"]["type"]) == (429, "own")
    assert [answer.status_code for answer in answers] == [529, 529, 200]
    assert answers[0].json()["error"]["type"] == "overloaded_error"
    assert answers[0].headers["retry-after"] == "3"


@pytest.mark.parametrize("garbage", ["json", "sse", "html", "empty", "truncated"])
async def test_garbage_is_a_success_that_no_client_can_read(garbage: str) -> None:
    bad = parse_script({"conversations": {"main": [{"text": "well", "garbage": garbage}]}})
    async with serving(bad) as (server, client):
        nonsense, good = await post(client, ask()), await post(client, ask())
        assert server.requests[0].outcome == "garbage"
    assert nonsense.status_code == 200
    assert "message_stop" not in nonsense.text
    assert good.text.count("message_stop") == 2


async def test_a_hanging_step_never_answers_and_sees_its_client_go() -> None:
    async with serving(script(Step(text="late", hang=True))) as (server, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post, client, ask())
            await server.wait_until(lambda requests: len(requests) == 1)
            tasks.cancel_scope.cancel()
        await server.wait_until(settled(1))
        assert (server.requests[0].outcome, server.requests[0].status) == ("client_gone", 0)
        assert (await post(client, ask())).status_code == 200


async def test_a_client_that_leaves_in_the_middle_is_noticed_and_billed_its_share() -> None:
    step = Step(text="a b c d e f", gap_s=0.2, usage=Usage(input_tokens=100, output_tokens=60))
    async with serving(script(step)) as (server, client):
        async with client.stream("POST", "/v1/messages", json=ask()) as response:
            await anext(response.aiter_raw())
        await server.wait_until(settled(1))
        (left,) = server.requests
    assert left.outcome == "client_gone"
    assert left.billed.input_tokens == 100
    assert 0 < left.billed.output_tokens < 60


async def test_a_delay_comes_before_the_first_byte() -> None:
    async with serving(script(Step(text="late", delay_s=0.05))) as (_, client):
        began = time.monotonic()
        assert (await post(client, ask())).status_code == 200
        assert time.monotonic() - began >= 0.05


async def test_the_bill_is_what_was_finished_and_the_share_of_what_was_cut() -> None:
    usage = Usage(input_tokens=1_000, output_tokens=100, cache_read_tokens=5, cache_write_tokens=6)
    async with serving(script(Step(text="one two three", usage=usage, cut_after=5))) as (server, client):
        await frames_until_cut(client, ask())
        answer = await post(client, ask())
        cut, whole = (request.billed for request in server.requests)
    assert (whole.input_tokens, whole.output_tokens, whole.cache_read_tokens) == (1_000, 100, 5)
    assert (cut.input_tokens, cut.output_tokens) == (1_000, 56)  # 5 of 9 frames
    assert events(answer)[-2]["usage"] == {
        "input_tokens": 1_000,
        "cache_creation_input_tokens": 6,
        "cache_read_input_tokens": 5,
        "output_tokens": 100,
    }


async def test_errors_are_counted_and_cost_nothing() -> None:
    async with serving(script(Step(status=500))) as (server, client):
        await post(client, ask())
        (refused,) = server.requests
    assert (refused.outcome, refused.status, refused.billed.input_tokens) == ("error", 500, 0)


async def test_equal_requests_hash_equal_whatever_their_metadata_and_cache_marks() -> None:
    marked = {"type": "text", "text": "[script:main]", "cache_control": {"type": "ephemeral"}}
    tool = {"name": "T", "input_schema": {"properties": {"cache_control": {"type": "string"}}}}
    other: dict[str, Any] = {"name": "T", "input_schema": {"properties": {}}}
    async with serving(script(SAYS)) as (server, client):
        await post(client, ask(user([marked]), tools=[tool], metadata={"user_id": "a"}))
        await post(client, ask(user([text("[script:main]")]), metadata={"user_id": "b"}, tools=[tool]))
        await post(client, ask(user([text("[script:main]")]), tools=[other]))
        first, same, differs = (request.digest for request in server.requests)
    assert first == same
    assert first != differs


async def test_the_record_of_an_open_request_is_there_before_its_first_byte() -> None:
    async with (
        serving(script(Step(text="x", hang=True))) as (server, client),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(post, client, ask())
        await server.wait_until(lambda requests: len(requests) == 1)
        (request,) = server.requests
        assert (request.n, request.outcome, request.conversation, request.step) == (1, "open", "main", 0)
        assert (request.dialect, request.kind, request.stream, request.ended_at) == (
            "anthropic",
            "model",
            True,
            None,
        )
        tasks.cancel_scope.cancel()


async def test_counts_and_bodies_can_be_read_over_http() -> None:
    async with serving(script(SAYS)) as (server, client):
        await post(client, ask())
        listed = (await client.get("/_script/requests")).json()["requests"]
        body = await client.get("/_script/requests/1/body")
        missing = await client.get("/_script/requests/2/body")
        (record,) = server.requests
    assert [(entry["n"], entry["outcome"], entry["digest"]) for entry in listed] == [
        (1, "completed", record.digest)
    ]
    assert body.json() == ask()
    assert missing.status_code == 404


async def test_the_log_holds_every_request_and_its_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "requests.jsonl"
    seen: list[RequestRecord] = []
    for _ in range(2):
        async with serving(script(SAYS), log=log) as (server, client):
            await post(client, ask())
            seen.extend(server.requests)
    with log.open("ab") as file:
        file.write(b'{"n": 3, "at"')  # torn by a kill
    assert [record.n for record in seen] == [1, 2]
    assert list(read_log(log)) == seen


async def test_side_requests_are_answered_sanely_and_only_token_counts_recorded() -> None:
    async with serving(script(SAYS)) as (server, client):
        assert (await client.head("/")).status_code == 200
        assert (await client.get("/v1/models")).json()["data"][0]["id"]
        assert (await client.get("/v1/models/m-7")).json()["id"] == "m-7"
        assert (await client.get("/nowhere")).status_code == 404
        counted = await client.post("/v1/messages/count_tokens?beta=true", json=ask(user("any prompt " * 20)))
        assert counted.json()["input_tokens"] > 50
        (request,) = server.requests
    assert (request.kind, request.billed.input_tokens) == ("count_tokens", 0)


async def test_no_frame_waits_for_a_delayed_acknowledgement() -> None:
    async with serving(script(SAYS)) as (_, client):
        began = time.monotonic()
        for _ in range(20):
            await post(client, ask())
        # With Nagle's algorithm on, each takes 40 ms for that alone.
        assert time.monotonic() - began < 0.6
