"""Both clients, by their real SDKs, against the scripted model server."""

import gc
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import msgspec
import pytest

from outlast.calls import is_passing
from outlast.errors import BadPayload, ModelCallFailed, ModelCallRejected, ModelError, PromptTooLong
from outlast.model import (
    Answer,
    Model,
    Request,
    ThinkingPart,
    ToolMessage,
    ToolSpec,
    answer_json,
    billed,
    image,
    model_ask,
    read_answer,
    tool_result,
    user,
)
from outlast.models.anthropic import Anthropic
from outlast.models.openai_chat import OpenAIChat
from outlast.models.wire import Limits
from outlast.output import output_of
from outlast.records import Usage
from outlast.testing.models import ScriptedModels, parse_script

Api = Literal["anthropic", "openai-chat"]
pytestmark = pytest.mark.parametrize("api", ["anthropic", "openai-chat"])

KEY = "sk-very-secret"
PNG = b"\x89PNG\r\n\x1a\n..."
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})


class Verdict(msgspec.Struct):
    good: bool
    why: str = ""


def model_of(api: Api, base_url: str, limits: Limits | None = None, key: str | None = KEY) -> Model:
    if api == "anthropic":
        return Anthropic("claude-sonnet-5", api_key=key, base_url=base_url, limits=limits)
    return OpenAIChat("gpt-5.5", api_key=key, base_url=f"{base_url}/v1", limits=limits)


@asynccontextmanager
async def serving(
    api: Api, *steps: dict[str, Any], limits: Limits | None = None
) -> AsyncGenerator[tuple[Model, ScriptedModels]]:
    async with ScriptedModels.serve(parse_script({"conversations": {"default": list(steps)}})) as server:
        yield model_of(api, server.base_url, limits), server


def request(model: Model, *extra: Any, **more: Any) -> Request:
    return Request(model=model.name, messages=(user("go on"), *extra), **more)


def sent(server: ScriptedModels, n: int = 1) -> dict[str, Any]:
    body = server.find_body(n)
    assert body is not None
    return json.loads(body)


async def failure(api: Api, step: dict[str, Any], limits: Limits | None = None) -> ModelError:
    async with serving(api, {"times": "always", **step}, limits=limits) as (model, server):
        with anyio.fail_after(10), pytest.raises(ModelError) as caught:
            await model.ask(request(model))
        assert len(server.requests) == 1, "one layer owns the retries, and it is not the SDK"
        return caught.value


async def test_text_and_thoughts_are_shown_as_they_come_and_are_the_answer(api: Api) -> None:
    shown: list[tuple[str, str]] = []
    async with serving(api, {"thinking": "well well", "text": "one two\n three"}) as (model, _):
        answer = await model.ask(request(model), lambda kind, piece: shown.append((kind, piece)))
    assert (
        "".join(piece for kind, piece in shown if kind == "text") == answer.message.text == "one two\n three"
    )
    assert "".join(piece for kind, piece in shown if kind == "thinking") == "well well"
    assert len(shown) > 3
    assert isinstance(answer.message.parts[0], ThinkingPart)
    assert answer.stop == "end"
    assert (answer.model, answer.id != "") == (model.name, True)
    assert read_answer(json.loads(json.dumps(answer_json(answer)))) == answer


async def test_parallel_tool_calls_and_their_results_go_there_and_back(api: Api) -> None:
    tools = [{"name": "look", "input": {"at": "x" * 200}}, {"name": "look"}]
    async with serving(api, {"thinking": "hm", "text": "I look.", "tools": tools}, {"text": "done"}) as (
        model,
        server,
    ):
        asked = request(model, tools=(LOOK,))
        answer = await model.ask(asked)
        first, second = answer.message.tool_calls
        assert answer.stop == "tools"
        assert (first.name, first.arguments, second.arguments) == ("look", {"at": "x" * 200}, {})
        assert first.id != second.id
        results = ToolMessage((tool_result(first.id, "a cat"), tool_result(second.id, "no", is_error=True)))
        answer = await model.ask(
            msgspec.structs.replace(asked, messages=(*asked.messages, answer.message, results))
        )
        assert answer.message.text == "done"
        spoken = sent(server, 2)["messages"]
    if api == "anthropic":
        thought, _, *uses = spoken[1]["content"]
        assert thought["thinking"] == "hm"
        assert thought["signature"]
        assert [use["id"] for use in uses] == [first.id, second.id]
        assert spoken[2] == {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": first.id,
                    "content": [{"type": "text", "text": "a cat"}],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": second.id,
                    "content": [{"type": "text", "text": "no"}],
                    "is_error": True,
                },
            ],
        }
    else:
        assert spoken[1]["reasoning_content"] == "hm"
        assert [call["id"] for call in spoken[1]["tool_calls"]] == [first.id, second.id]
        assert spoken[2:] == [
            {"role": "tool", "tool_call_id": first.id, "content": "a cat"},
            {"role": "tool", "tool_call_id": second.id, "content": "no"},
        ]


async def test_what_an_answer_used_and_cost_is_told(api: Api) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 500, "cache_write_tokens": 200}
    async with serving(api, {"text": "x", "usage": usage}) as (model, _):
        answer = await model.ask(request(model))
    cost = (
        (1000 * 2 + 100 * 10 + 500 * 0.2 + 200 * 2.5)
        if api == "anthropic"
        else 1000 * 5 + 100 * 30 + 500 * 0.5 + 200 * 5
    )
    assert answer.usage == Usage(1000, 100, 500, 200, cost / 1e6)


async def test_a_model_without_a_known_price_costs_nothing_but_its_tokens_count(api: Api) -> None:
    async with serving(api, {"text": "x", "usage": {"input_tokens": 7, "output_tokens": 1}}) as (model, _):
        answer = await model.ask(msgspec.structs.replace(request(model), model="llama"))
    assert answer.usage == Usage(7, 1)


async def test_images_go_in(api: Api) -> None:
    async with serving(api, {"text": "a cat"}) as (model, server):
        shown = user(
            "What is it?", image(PNG), msgspec.structs.replace(image(PNG), data=b"", url="https://x/y")
        )
        await model.ask(Request(model=model.name, messages=(shown,)))
        _, first, second = sent(server)["messages"][0]["content"]
    data = "iVBORw0KGgouLi4="
    if api == "anthropic":
        assert first["source"] == {"type": "base64", "media_type": "image/png", "data": data}
        assert second["source"] == {"type": "url", "url": "https://x/y"}
    else:
        assert first["image_url"] == {"url": f"data:image/png;base64,{data}"}
        assert second["image_url"] == {"url": "https://x/y"}


async def test_an_answer_of_a_type_is_asked_for_and_read(api: Api) -> None:
    output = output_of(Verdict)
    async with serving(api, {"text": '{"good": true, "why": "so"}'}) as (model, server):
        answer = await model.ask(request(model, output=output.spec))
        body = sent(server)
    assert output.read(answer) == Verdict(good=True, why="so")
    asked = (
        body["output_config"]["format"]["schema"]
        if api == "anthropic"
        else body["response_format"]["json_schema"]["schema"]
    )
    assert asked["required"] == ["good", "why"]


@pytest.mark.parametrize(("stop", "meant"), [("length", "length"), ("refusal", "refusal")])
async def test_an_answer_that_is_cut_or_declined_says_so(api: Api, stop: str, meant: str) -> None:
    async with serving(api, {"text": "I", "stop": stop}) as (model, _):
        assert (await model.ask(request(model))).stop == meant


async def test_an_empty_answer_is_an_answer_and_can_be_sent_back(api: Api) -> None:
    async with serving(api, {"text": ""}, {"text": "more"}) as (model, server):
        answer = await model.ask(request(model))
        assert answer.message.text == ""
        messages = (*request(model).messages, answer.message, user("And?"))
        await model.ask(Request(model=model.name, messages=messages))
        roles = [message["role"] for message in sent(server, 2)["messages"]]
    # Anthropic takes no empty message: what the user said before and after it becomes one.
    assert roles == (["user"] if api == "anthropic" else ["user", "assistant", "user"])


@pytest.mark.parametrize("status", [400, 401, 404, 409, 429, 500, 529])
async def test_errors_that_pass_are_told_from_those_that_do_not(api: Api, status: int) -> None:
    error = await failure(api, {"status": status})
    assert type(error) is (ModelCallFailed if is_passing(status) else ModelCallRejected)
    assert error.status == status
    assert error.reason == "The script says so."
    assert error.retry_after_s == 0


async def test_the_wait_that_a_provider_asks_for_is_told(api: Api) -> None:
    error = await failure(api, {"status": 429, "retry_after_s": 12})
    assert isinstance(error, ModelCallFailed)
    assert error.retry_after_s == 12


async def test_a_cut_answer_is_a_failure_that_passes_and_its_cost_is_told_where_it_is_known(api: Api) -> None:
    step = {
        "text": "one two three four five",
        "cut_after": 5,
        "cut_times": "always",
        "usage": {"input_tokens": 9},
    }
    error = await failure(api, step)
    assert isinstance(error, ModelCallFailed)
    assert error.status == "with half an answer"
    used = billed(error)
    assert (used and used.input_tokens) == (9 if api == "anthropic" else None)


@pytest.mark.parametrize("garbage", ["json", "sse", "html", "empty", "truncated"])
async def test_nonsense_is_a_failure_that_passes(api: Api, garbage: str) -> None:
    error = await failure(api, {"text": "one two", "garbage": garbage})
    assert isinstance(error, ModelCallFailed)
    assert error.status == "with nonsense"


async def test_a_provider_that_says_nothing_is_left_after_the_silence_that_is_allowed(api: Api) -> None:
    error = await failure(api, {"hang": True}, Limits(silence_s=0.2))
    assert isinstance(error, ModelCallFailed)
    assert error.status == "with nothing"
    assert "in time" in str(error)


async def test_a_provider_that_never_ends_is_left_at_the_end_of_the_time_for_all(api: Api) -> None:
    error = await failure(api, {"text": "on and " * 1000, "gap_s": 0.05}, Limits(total_s=0.5))
    assert isinstance(error, ModelCallFailed)
    assert error.status == "with half an answer"


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "http://", "http://127.0.0.1:port"])
async def test_an_address_that_is_none_is_no_failure_that_passes(api: Api, address: str) -> None:
    model = model_of(api, address)
    with pytest.raises(ModelCallRejected, match="its base URL is none that can be called"):
        await model.ask(request(model))


async def test_an_address_where_nobody_listens_is_a_failure_that_passes(api: Api) -> None:
    model = model_of(api, "http://127.0.0.1:1")
    with pytest.raises(ModelCallFailed, match="with nothing"):
        await model.ask(request(model))


async def test_a_call_that_is_cancelled_ends_at_once_and_leaves_nothing_open(api: Api) -> None:
    async with serving(api, {"text": "on and " * 1000, "gap_s": 0.05}) as (model, server):
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    await model.ask(request(model), lambda _kind, _piece: tasks.cancel_scope.cancel())

                tasks.start_soon(ask)
        await server.wait_until(lambda seen: [one.outcome for one in seen] == ["client_gone"])
    gc.collect()  # what is open still would warn, and warnings are errors


async def test_one_model_serves_many_at_once(api: Api) -> None:
    async with serving(api, {"text": "yes"}) as (model, server):
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await model.ask(request(model)))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(ask)
        assert [answer.message.text for answer in answers] == ["yes"] * 20
        assert len({one.digest for one in server.requests}) == 1


async def test_a_model_is_asked_in_one_event_loop_after_another(api: Api) -> None:
    model = model_of(api, "http://127.0.0.1:1")

    async def ask() -> None:
        with pytest.raises(ModelCallFailed):
            await model.ask(request(model))

    await anyio.to_thread.run_sync(lambda: [anyio.run(ask) for _ in range(2)])


async def test_the_same_request_is_the_same_bytes_and_holds_no_secret(api: Api) -> None:
    async with serving(api, {"text": "x"}) as (model, server):
        asked = request(model, tools=(LOOK,), temperature=0.5, extras={"b": 1, "a": {"z": 1, "y": 2}})
        for _ in range(2):
            await model.ask(asked)
        assert server.find_body(1) == server.find_body(2)
        assert KEY.encode() not in (server.find_body(1) or b"")
        assert KEY not in repr(model_ask(asked))


async def test_extras_are_laid_over_the_body_and_null_takes_out(api: Api) -> None:
    async with serving(api, {"text": "x"}) as (model, server):
        extras = {"top_k": 3, "temperature": None, "nested": {"keep": 1, "drop": None}}
        await model.ask(request(model, temperature=0.5, extras=extras))
        body = sent(server)
    assert (body["top_k"], body["nested"], "temperature" in body) == (3, {"keep": 1}, False)


async def test_what_is_not_json_is_never_sent(api: Api) -> None:
    async with serving(api, {"text": "x"}) as (model, server):
        with pytest.raises(BadPayload):
            await model.ask(request(model, extras={"x": object()}))
        assert not server.requests


async def test_a_key_that_the_provider_quotes_is_not_in_the_error(api: Api) -> None:
    error = await failure(api, {"status": 401, "error_text": f"Incorrect API key provided: {KEY}."})
    assert error.reason == "Incorrect API key provided: …."


async def test_the_key_is_read_from_the_environment_when_it_is_needed(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    variable = "ANTHROPIC_API_KEY" if api == "anthropic" else "OPENAI_API_KEY"
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    script = parse_script({"conversations": {"default": [{"text": "x"}]}})
    async with ScriptedModels.serve(script) as server:
        model = model_of(api, server.base_url, key=None)
        with pytest.raises(ModelCallRejected, match=variable):
            await model.ask(request(model))
        monkeypatch.setenv(variable, KEY)
        assert (await model.ask(request(model))).message.text == "x"
        assert len(server.requests) == 1


@asynccontextmanager
async def answering(head: bytes, body: bytes = b"") -> AsyncGenerator[str]:
    """A server that says the same to whoever comes; gives its address."""

    async def answer(client: anyio.abc.SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body))

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


async def test_a_redirect_is_not_followed_with_the_key(api: Api) -> None:
    async with answering(b"307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/") as address:
        model = model_of(api, address)
        with pytest.raises(ModelCallRejected, match="307"):
            await model.ask(request(model))


async def test_a_provider_that_breaks_off_in_the_midst_fails_in_a_way_that_passes(api: Api) -> None:
    opened = b'{"type":"message_start","message":{"id":"1","usage":{"input_tokens":7}}}'
    broke = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    said = {
        "anthropic": b"event: message_start\ndata: %b\n\nevent: error\ndata: %b\n\n" % (opened, broke),
        "openai-chat": b'data: {"choices":[]}\n\ndata: {"error":{"message":"Overloaded","code":502}}\n\n',
    }
    async with answering(b"200 OK\r\ncontent-type: text/event-stream", said[api]) as address:
        model = model_of(api, address)
        with pytest.raises(ModelCallFailed, match="Overloaded") as caught:
            await model.ask(request(model))
    assert caught.value.status == (529 if api == "anthropic" else "with half an answer")
    assert billed(caught.value) == (Usage(7, cost_usd=7 * 2 / 1e6) if api == "anthropic" else None)


@pytest.mark.parametrize(
    "event", [b"7", b"null", b'"x"', b"[]", b"{}", b'{"error": "x"}', b'{"type": "error"}']
)
async def test_events_that_are_none_are_nonsense_and_no_crash(api: Api, event: bytes) -> None:
    said = b"event: message_start\ndata: %b\n\nevent: error\ndata: %b\n\n" % (event, event)
    async with answering(b"200 OK\r\ncontent-type: text/event-stream", said) as address:
        model = model_of(api, address)
        with pytest.raises(ModelCallFailed):
            await model.ask(request(model))


@pytest.mark.parametrize("body", [b"", b"7", b"[]", b'"no"', b'{"error": 7}', b"<html>", b"\xff"])
async def test_an_error_without_a_sound_body_is_told_by_its_status(api: Api, body: bytes) -> None:
    async with answering(b"503 Busy\r\ncontent-type: application/json", body) as address:
        model = model_of(api, address)
        with pytest.raises(ModelCallFailed) as caught:
            await model.ask(request(model))
    assert caught.value.status == 503


@pytest.mark.crash
def test_without_its_sdk_a_client_names_the_extra(api: Api) -> None:
    package, module = ("anthropic", "anthropic") if api == "anthropic" else ("openai", "openai_chat")
    code = f"import sys; sys.modules['{package}'] = None; import outlast.models.{module}"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert f"Install it with: pip install 'outlast[{package}]'" in said


def test_a_client_says_what_it_is(api: Api) -> None:
    model = model_of(api, "http://127.0.0.1:1")
    assert model.provider == api
    assert list(model.versions()) == [api.partition("-")[0]]
    assert KEY not in repr(model)


@pytest.mark.parametrize(
    ("error_type", "error_text"),
    [
        ("context_length_exceeded", "This model's maximum context length is 8 tokens."),
        (None, "prompt is too long: 9 tokens > 8 maximum"),
        (None, "the request exceeds the context size"),
    ],
)
async def test_a_prompt_that_is_too_long_is_told_apart(
    api: Api, error_type: str | None, error_text: str
) -> None:
    error = await failure(api, {"status": 400, "error_type": error_type, "error_text": error_text})
    own = "prompt" in error_text if api == "anthropic" else "context" in error_text
    assert isinstance(error, PromptTooLong) is own
    assert isinstance(error, ModelCallRejected)
