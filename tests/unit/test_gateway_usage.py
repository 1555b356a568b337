"""What a stream of Chat Completions has used is written down, whether or not its harness asks for it."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from tests.gateway.reference import PlainDialogue
from tests.gateway.stage import RawProvider, Reply, Stage, stage
from tests.gateway.wires import ASKS, BILLED, WIRES

(WIRE,) = (wire for wire in WIRES if wire.name == "openai-chat")
FRAMES = WIRE.frames(ASKS)
TOLD = [frame for frame in FRAMES if b'"choices":[]' in frame]
UNTOLD = b"".join(frame for frame in FRAMES if frame not in TOLD)
REFUSED = b'{"error":{"message":"Unrecognized request argument supplied: stream_options"}}'


def on_stage(*replies: Reply) -> tuple[RawProvider, AbstractAsyncContextManager[Stage]]:
    said = RawProvider(*replies)
    return said, stage(said, dialogue=PlainDialogue(dialect=WIRE.name), path=WIRE.path)


def asked(**more: Any) -> dict[str, Any]:
    request = WIRE.request(WIRE.user("hello"))
    del request["stream_options"]
    return {**request, **more}


def declined(status: int = 400, body: bytes = REFUSED) -> Reply:
    return Reply([body], kind="application/json", status=status)


async def test_a_harness_that_does_not_ask_is_told_nothing_and_the_log_everything() -> None:
    said, staged = on_stage(Reply(FRAMES))
    async with staged as on:
        first = await on.ask(asked())
        on.attempt.calls.reached.clear()
        again = await on.ask(asked())
        (call,) = on.attempt.calls.models
    assert len(TOLD) == 1
    assert first.content == UNTOLD
    assert b"usage" not in again.content
    assert WIRE.read(again.content) == WIRE.read(UNTOLD)
    assert call.usage is not None
    assert call.usage.output_tokens == BILLED.output_tokens
    assert "stream_options" not in call.ask.frame
    (sent,) = said.requests
    assert sent.json == asked(stream_options={"include_usage": True})


async def test_what_else_a_harness_wants_of_its_stream_stays() -> None:
    said, staged = on_stage(Reply(FRAMES))
    async with staged as on:
        await on.ask(asked(stream_options={"include_usage": False, "include_obfuscation": False}))
    (sent,) = said.requests
    assert sent.json["stream_options"] == {"include_usage": True, "include_obfuscation": False}


async def test_a_harness_that_asks_is_told_and_its_own_bytes_go_upstream() -> None:
    said, staged = on_stage(Reply(FRAMES))
    body = b'{"stream": true,"model":"m","stream_options":{"include_usage":true},"messages":[]}'
    async with staged as on:
        assert (await on.ask(body)).content == b"".join(FRAMES)
    assert [sent.body for sent in said.requests] == [body]


async def test_an_answer_that_is_no_stream_tells_it_anyway() -> None:
    said, staged = on_stage(Reply([WIRE.body(ASKS)], kind="application/json"))
    async with staged as on:
        await on.ask(asked(stream=False))
    assert [sent.json for sent in said.requests] == [asked(stream=False)]


async def test_a_server_that_knows_no_such_wish_is_asked_as_the_harness_did_and_not_bothered_again() -> None:
    said, staged = on_stage(declined(), Reply([UNTOLD]))
    async with staged as on:
        assert (await on.ask(asked())).content == UNTOLD
        await on.ask(asked(user="another", temperature=1))
        first, second = on.attempt.calls.models
    assert [("stream_options" in sent.json) for sent in said.requests] == [True, False, False]
    assert (first.usage, first.voided, second.voided) == (None, [], [])


async def test_an_error_about_something_else_is_the_harnesss_own() -> None:
    body = b'{"error":{"message":"No such model."}}'
    said, staged = on_stage(declined(body=body))
    async with staged as on:
        response = await on.ask(asked())
    assert (response.status_code, response.content, len(said.requests)) == (400, body, 1)
