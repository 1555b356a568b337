"""What the gateway promises a harness, in every dialect: real HTTP, a provider that says what it is told to."""

import random
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from itertools import pairwise
from typing import Any

import anyio
import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.adapter import TakenSteer, ToolAsk, ToolResult
from outlast.errors import AttemptLost, TurnStopped
from outlast.gate import Point
from outlast.gateway import Limits, OpenAIKey
from outlast.gateway.sse import Cutter, Malformed
from outlast.testing.models import ScriptedModels, Step, ToolUse, parse_script
from outlast.testing.models.script import Garbage
from tests.gateway.reference import GOING_ON, MemoryAttempt, PlainDialogue, until
from tests.gateway.stage import RawProvider, Reply, Stage, stage
from tests.gateway.wires import ASKS, BILLED, SAYS, WIRES, Wire

every = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
OPENAI = [wire for wire in WIRES if wire.name != "anthropic"]


def on_stage(
    wire: Wire,
    provider: RawProvider | str,
    *,
    attempt: MemoryAttempt | None = None,
    limits: Limits | None = None,
) -> AbstractAsyncContextManager[Stage]:
    dialogue = PlainDialogue(dialect=wire.name)
    return stage(provider, dialogue=dialogue, path=wire.path, attempt=attempt, limits=limits)


def provider(
    wire: Wire, step: Step = ASKS, *, wait_at: int = 0, go_on: anyio.Event | None = None
) -> RawProvider:
    frames: list[bytes | anyio.Event] = [*wire.frames(step)]
    if go_on is not None:
        frames.insert(wait_at, go_on)
    return RawProvider(Reply(frames))


def hello(wire: Wire, *, stream: bool = True) -> dict[str, object]:
    return wire.request(wire.user("hello"), stream=stream)


# when the harness gets it


@every
async def test_what_a_harness_reads_is_what_the_provider_said_and_what_the_log_holds(wire: Wire) -> None:
    async with on_stage(wire, provider(wire)) as on:
        read = wire.read((await on.ask(hello(wire))).content)
        assert (read.text, read.whole) == ("I will look.", True)
        assert [(call.name, call.arguments) for call in read.calls] == [
            (tool.name, tool.input) for tool in ASKS.tools
        ]
        (call,) = on.attempt.calls.models
        assert call.answer is not None
        assert list(wire.dialect.asks(call.answer)) == [
            ToolAsk(it.id, it.name, it.arguments) for it in read.calls
        ]
        assert set(on.attempt.calls.intents) == {it.id for it in read.calls}


@every
async def test_no_tool_call_is_readable_before_its_intent_is_in_the_log(wire: Wire) -> None:
    async with on_stage(wire, provider(wire), limits=Limits(calm_s=0.02)) as on:
        logged = on.attempt.gate.hold(Point.OUTCOME_QUEUED)
        async with on.asking(hello(wire)) as hearing:
            await until(lambda: on.attempt.gate.count(Point.OUTCOME_QUEUED))
            calm = wire.dialect.calm()
            while hearing.heard.count(calm) < 3:
                await hearing.more()
            early = wire.read(hearing.heard)
            assert not early.calls
            assert not early.whole
            logged.set()
            assert len(wire.read(await hearing.rest()).calls) == 2


@every
async def test_a_text_flows_to_the_harness_while_the_provider_still_speaks(wire: Wire) -> None:
    go_on = anyio.Event()
    frames = wire.frames(SAYS)
    at = next(n for n, frame in enumerate(frames) if b"done." in frame) + 1
    said = provider(wire, SAYS, wait_at=at, go_on=go_on)
    async with on_stage(wire, said) as on, on.asking(hello(wire)) as hearing:
        await hearing.until(b"done.")
        assert not on.attempt.gate.count(Point.AFTER_EFFECT)
        go_on.set()
        assert wire.read(await hearing.rest()).text == "It is done."


@every
async def test_watchers_see_at_once_what_is_thought_and_said(wire: Wire) -> None:
    async with on_stage(wire, provider(wire)) as on:
        await on.ask(hello(wire))
        shown = on.attempt.calls.shown
        assert "".join(text for _, kind, text in shown if kind == "thinking") == "hm hm"
        assert "".join(text for _, kind, text in shown if kind == "text") == "I will look."


@every
async def test_an_answer_in_one_piece_waits_for_the_log_too(wire: Wire) -> None:
    body = wire.body(ASKS)
    async with on_stage(wire, RawProvider(Reply([body], kind="application/json"))) as on:
        logged = on.attempt.gate.hold(Point.OUTCOME_QUEUED)
        responses: list[httpx.Response] = []
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                responses.append(await on.ask(hello(wire, stream=False)))

            tasks.start_soon(ask)
            await until(lambda: on.attempt.gate.count(Point.OUTCOME_QUEUED))
            assert not responses
            logged.set()
        assert responses[0].content == body
        assert len(on.attempt.calls.intents) == 2


@every
async def test_what_a_call_costs_is_what_the_provider_reported(wire: Wire) -> None:
    async with on_stage(wire, provider(wire)) as on:
        await on.ask(hello(wire))
        usage = on.attempt.calls.models[0].usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (BILLED.input_tokens, BILLED.output_tokens)
        assert (usage.cache_read_tokens, usage.cache_write_tokens) == (2, 4)


@every
@pytest.mark.parametrize("round_", range(3))
async def test_chunks_do_not_change_the_bytes_that_are_let_through(
    wire: Wire, round_: int, seed: int
) -> None:
    draw = random.Random(seed + round_)
    raw = b"".join(wire.frames(ASKS))
    cuts = sorted(draw.randrange(len(raw)) for _ in range(draw.randrange(40)))
    chunks = [raw[first:last] for first, last in pairwise([0, *cuts, len(raw)])]
    async with on_stage(wire, RawProvider(Reply(chunks))) as on:
        response = await on.ask(hello(wire))
        calm = b'event: ping\ndata: {"type":"ping"}\n\n'
        assert response.content.replace(calm, b"") == raw.replace(calm, b"")


# asked again


@every
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_is_served_again_from_the_log(wire: Wire, stream: bool) -> None:  # noqa: FBT001 - a table
    said = provider(wire) if stream else RawProvider(Reply([wire.body(ASKS)], kind="application/json"))
    async with on_stage(wire, said) as on:
        first = await on.ask(hello(wire, stream=stream))
        on.attempt.calls.reached.clear()
        again = await on.ask(hello(wire, stream=stream))
        assert len(said.requests) == 1
        if stream:
            one, other = wire.read(first.content), wire.read(again.content)
            assert (one.text, one.calls, one.whole) == (other.text, other.calls, other.whole)
        else:
            assert again.json() == first.json()


@every
async def test_a_call_goes_on_without_the_harness_and_is_served_when_it_comes_back(wire: Wire) -> None:
    go_on = anyio.Event()
    said = provider(wire, wait_at=3, go_on=go_on)
    async with on_stage(wire, said) as on:
        async with on.asking(hello(wire)) as hearing:
            await hearing.more()
        go_on.set()
        await until(lambda: on.attempt.calls.models[0].answer)
        assert wire.read((await on.ask(hello(wire))).content).text == "I will look."
        assert len(said.requests) == 1


# what goes upstream


@every
async def test_the_harness_own_bytes_go_upstream_with_the_result_of_the_log_where_it_knows_better(
    wire: Wire,
) -> None:
    said = provider(wire)
    async with on_stage(wire, said) as on:
        asked = msgspec.json.encode(hello(wire)).replace(b":", b" :  ", 3)
        answered = wire.read((await on.ask(asked)).content)
        assert said.requests[0].body == asked
        call = answered.calls[0].id
        on.attempt.calls.results[call] = ToolResult("in_doubt", "It may have run.")
        told = [
            wire.request(wire.user("hello"), answered.turn, wire.result(call, it))
            for it in ("aborted", "other")
        ]
        for request in told:
            await on.ask(request)
        assert wire.result_in(said.requests[1].json) == "It may have run."
        assert on.attempt.calls.told == {call: on.attempt.calls.results[call]}, "it is written down"
        assert len({call.ask.match for call in on.attempt.calls.models}) == 2


@every
async def test_how_a_call_ended_that_no_hook_told_of_is_read_from_the_next_request(wire: Wire) -> None:
    async with on_stage(wire, provider(wire)) as on:
        answered = wire.read((await on.ask(hello(wire))).content)
        call = answered.calls[0].id
        request = wire.request(wire.user("hello"), answered.turn, wire.result(call, "a.txt"))
        assert (await on.ask(request)).status_code == 200
        result = on.attempt.calls.results[call]
        assert result.status == "ok"
        assert "a.txt" in str(result.value)


@every
async def test_a_result_of_a_call_that_was_never_granted_stops_the_harness(wire: Wire) -> None:
    said = provider(wire)
    async with on_stage(wire, said) as on:
        answered = wire.read(b"".join(wire.frames(ASKS)))
        request = wire.request(wire.user("hello"), answered.turn, wire.result("call_x", "x"))
        response = await on.ask(request)
        assert response.status_code == wire.dialect.refusal_status
        assert "call_x" in response.json()["error"]["message"]
        assert not said.requests


@every
async def test_what_a_resumed_harness_adds_reaches_neither_the_provider_nor_the_log(wire: Wire) -> None:
    said = provider(wire)
    added = [{"role": "user", "content": [{"type": "input_text", "text": GOING_ON}]}]
    async with on_stage(wire, said) as on:
        await on.ask(hello(wire))
        await on.ask(wire.request(wire.user("hello"), added))
        assert GOING_ON.encode() not in said.requests[1].body
        first, second = on.attempt.calls.models
        assert first.ask.match == second.ask.match


@every
async def test_a_steer_is_consumed_by_the_request_that_brings_it(wire: Wire) -> None:
    async with on_stage(wire, provider(wire, SAYS)) as on:
        on.attempt.steers.there = [TakenSteer("s1", "use tabs")]
        answered = wire.read((await on.ask(hello(wire))).content)
        assert not on.attempt.steers.taken
        await on.ask(wire.request(wire.user("hello"), answered.turn, wire.user("<note>use tabs</note>")))
        assert on.attempt.steers.taken == ["s1"]


# what is no answer


@every
@pytest.mark.parametrize("status", [400, 401, 403, 413, 429, 500, 529])
async def test_an_error_is_no_answer_and_is_passed_on_as_it_is(wire: Wire, status: int) -> None:
    body = wire.dialect.error(status, "No.")
    failed = Reply([body], kind="application/json", status=status, headers={"retry-after": "7"})
    async with on_stage(wire, RawProvider(failed, Reply(wire.frames(ASKS)))) as on:
        response = await on.ask(hello(wire))
        assert (response.status_code, response.content) == (status, body)
        assert response.headers["retry-after"] == "7"
        (call,) = on.attempt.calls.models
        assert (call.answer, call.voided) == (None, [(f"HTTP {status}", None)])
        await on.ask(hello(wire))
        assert call.answer is not None


@every
@pytest.mark.parametrize("wait", ["30", "Wed, 21 Oct 2026 07:28:30 GMT"])
async def test_a_wait_that_the_provider_asks_for_is_kept_in_whatever_form_it_says_so(
    wire: Wire, wait: str
) -> None:
    headers = {"retry-after": wait, "date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    failed = Reply([wire.dialect.error(429, "No.")], kind="application/json", status=429, headers=headers)
    async with on_stage(wire, RawProvider(failed)) as on:
        await on.ask(hello(wire))
        (call,) = on.attempt.calls.models
        assert on.attempt.calls.retry_after_s == 30
        assert call.answer is None


@every
@pytest.mark.parametrize("garbage", ["json", "sse", "html", "empty", "truncated"])
@pytest.mark.parametrize("stream", [True, False])
async def test_nonsense_is_no_answer_and_an_error_that_may_be_tried_again(
    wire: Wire,
    garbage: Garbage,
    stream: bool,  # noqa: FBT001 - a table
) -> None:
    script = parse_script({"conversations": {"default": [{"text": "hi", "garbage": garbage}]}})
    async with ScriptedModels.serve(script) as models, on_stage(wire, models.base_url) as on:
        asked = hello(wire, stream=stream)
        if garbage == "truncated" and stream:
            with pytest.raises(httpx.RemoteProtocolError):
                await on.ask(asked)
        else:
            assert (await on.ask(asked)).status_code == 502
        (call,) = on.attempt.calls.models
        assert call.answer is None
        assert call.voided[0][0].startswith("nonsense")
        assert (await on.ask(asked)).status_code == 200
        assert call.answer is not None


@every
async def test_a_stream_cut_after_any_frame_shows_no_tool_call_and_is_asked_again(wire: Wire) -> None:
    frames = wire.frames(ASKS)
    ended = len(frames) - (
        2 if wire.name == "openai-chat" else 1
    )  # the finish alone makes a chat answer whole
    for after in range(1, ended):
        said = RawProvider(Reply(frames[:after], broken=True), Reply(frames))
        async with on_stage(wire, said) as on:
            async with on.asking(hello(wire)) as hearing:
                with suppress(httpx.RemoteProtocolError):
                    await hearing.rest()
            assert not wire.read(hearing.heard).calls
            assert not on.attempt.calls.intents
            (call,) = on.attempt.calls.models
            assert len(call.voided) == 1
            await on.ask(hello(wire))
            assert call.answer is not None
            assert len(said.requests) == 2


@every
async def test_an_error_in_the_midst_of_a_stream_reaches_the_harness_as_what_it_is(wire: Wire) -> None:
    broke = {
        "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"busy","message":"Busy"}}\n\n',
        "openai-responses": b'event: error\ndata: {"type":"error","code":"busy","message":"Busy"}\n\n',
        "openai-chat": b'data: {"error":{"code":529,"message":"Busy"}}\n\n',
    }[wire.name]
    frames = wire.frames(ASKS)
    async with on_stage(wire, RawProvider(Reply([*frames[:-3], broke]))) as on:
        response = await on.ask(hello(wire))
        assert response.content.endswith(broke)
        assert not wire.read(response.content.removesuffix(broke)).calls
        assert "Busy" in on.attempt.calls.models[0].voided[0][0]


@every
async def test_an_answer_over_the_limit_is_void(wire: Wire) -> None:
    async with on_stage(wire, provider(wire, Step(text="x" * 5000)), limits=Limits(answer_bytes=2000)) as on:
        with suppress(httpx.RemoteProtocolError):
            assert (await on.ask(hello(wire))).status_code == 502
        assert "longer" in on.attempt.calls.models[0].voided[0][0]


@every
async def test_a_huge_answer_is_read_served_and_served_again(wire: Wire) -> None:
    step = Step(text="y" * 100_000, tools=(ToolUse(name="write", input={"text": "z" * 300_000}),))
    async with on_stage(wire, provider(wire, step)) as on:
        first = wire.read((await on.ask(hello(wire))).content)
        on.attempt.calls.reached.clear()
        again = wire.read((await on.ask(hello(wire))).content)
        assert first.calls == again.calls
        assert len(str(again.calls[0].arguments["text"])) == 300_000


# the attempt is over


@every
async def test_a_token_that_opens_nothing_stops_the_harness(wire: Wire) -> None:
    async with on_stage(wire, provider(wire)) as on:
        response = await on.ask(hello(wire), **{"x-api-key": "guessed"})
        assert response.status_code == wire.dialect.refusal_status
        assert "opens nothing" in response.json()["error"]["message"]


@every
async def test_a_parked_turn_lets_nothing_through_any_more(wire: Wire) -> None:
    said = provider(wire)
    async with on_stage(wire, said) as on:
        on.attempt.calls.parked = "diverged"
        for _ in range(2):
            response = await on.ask(hello(wire))
            assert response.status_code == wire.dialect.refusal_status
            assert "diverged" in response.text
        assert not said.requests


@every
@pytest.mark.parametrize("over", [AttemptLost("fenced"), TurnStopped("cancelled")])
@pytest.mark.parametrize(
    "point", [Point.IN_EFFECT, Point.AFTER_EFFECT, Point.OUTCOME_QUEUED, Point.AFTER_OUTCOME]
)
async def test_an_attempt_that_is_lost_during_a_call_lets_no_tool_call_through(
    wire: Wire, over: BaseException, point: Point
) -> None:
    async with on_stage(wire, provider(wire)) as on:
        on.attempt.gate.raises[point] = over
        async with on.asking(hello(wire)) as hearing:
            with suppress(httpx.RemoteProtocolError):
                await hearing.rest()
        assert not wire.read(hearing.heard).calls
        assert (await on.ask(hello(wire))).status_code == wire.dialect.refusal_status
        assert not on.attempt.calls.reached


@every
async def test_an_answer_that_must_not_be_handed_over_lets_no_tool_call_through(wire: Wire) -> None:
    async with on_stage(wire, provider(wire)) as on:
        attempt = on.attempt
        attempt.calls.unasked[1] = TurnStopped("handed over")
        async with on.asking(hello(wire)) as hearing:
            with suppress(httpx.RemoteProtocolError):
                await hearing.rest()
        assert not wire.read(hearing.heard).calls
        assert (await on.ask(hello(wire))).status_code == wire.dialect.refusal_status
    (call,) = attempt.calls.models
    assert call.answer is not None, "the log has it all the same"
    nobody = RawProvider()
    async with on_stage(wire, nobody, attempt=attempt) as on:
        attempt.calls.unasked[1] = TurnStopped("handed over")
        assert (await on.ask(hello(wire))).status_code == wire.dialect.refusal_status
    assert not attempt.calls.reached
    async with on_stage(wire, nobody, attempt=attempt) as on:
        assert wire.read((await on.ask(hello(wire))).content).calls
    assert (nobody.requests, attempt.calls.reached) == ([], {1})


class Crash(BaseException):
    """What a test's gate raises to end the process."""


@every
@pytest.mark.parametrize(
    "point",
    [
        Point.BEFORE_INTENT,
        Point.AFTER_INTENT,
        Point.IN_EFFECT,
        Point.AFTER_EFFECT,
        Point.OUTCOME_QUEUED,
        Point.AFTER_OUTCOME,
        Point.DELIVERED,
    ],
)
async def test_what_ends_the_process_at_any_point_ends_the_attempt(wire: Wire, point: Point) -> None:
    attempt = MemoryAttempt()
    attempt.gate.raises[point] = Crash()
    with pytest.raises(Crash):
        await _ask_and_wait(wire, attempt)


async def _ask_and_wait(wire: Wire, attempt: MemoryAttempt) -> None:
    async with on_stage(wire, provider(wire), attempt=attempt) as on:
        with suppress(httpx.HTTPError):
            await on.ask(hello(wire))
        await anyio.sleep_forever()


# whole turns


@every
async def test_a_scripted_turn_goes_through_with_every_call_counted_once(wire: Wire) -> None:
    script = parse_script(
        {
            "conversations": {
                "default": [{"text": "I look.", "tools": [{"name": "ls"}, {"name": "ps"}]}, {"text": "ok"}]
            }
        }
    )
    async with ScriptedModels.serve(script) as models, on_stage(wire, models.base_url) as on:
        first = wire.read((await on.ask(hello(wire))).content)
        results = [wire.result(call.id, "a.txt") for call in first.calls]
        last = wire.read((await on.ask(wire.request(wire.user("hello"), first.turn, *results))).content)
        assert (last.text, last.calls) == ("ok", ())
        assert [sent.dialect for sent in models.requests] == [wire.name] * 2
        used = [model.usage for model in on.attempt.calls.models]
        assert [usage and usage.output_tokens for usage in used] == [
            sent.billed.output_tokens for sent in models.requests
        ]


@pytest.mark.parametrize("wire", OPENAI, ids=lambda wire: wire.name)
@pytest.mark.parametrize("path", ["/v1", ""])
async def test_a_base_url_with_its_version_and_a_prefix_is_kept_and_the_key_is_added(
    wire: Wire, path: str
) -> None:
    said = provider(wire, SAYS)
    async with said.serving():
        key = OpenAIKey("secret", f"{said.base_url}/api{path}/", {"openai-project": "p"})
        assert "secret" not in repr(key)
        async with stage(
            key, dialogue=PlainDialogue(dialect=wire.name), path=wire.path.removeprefix("/v1")
        ) as on:
            assert (await on.ask(hello(wire))).status_code == 200
            await on.client.post(wire.path, json=hello(wire))
    own = wire.path.removeprefix("/v1")
    assert [asked.line.split()[1] for asked in said.requests] == [f"/api{path}{own}"] * 2
    assert said.requests[0].headers["authorization"] == "Bearer secret"
    assert said.requests[0].headers["openai-project"] == "p"
    assert "x-api-key" not in said.requests[0].headers


# frames, cut anywhere

texts = st.text(max_size=12)
inputs = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.none(), max_size=3)
tools = st.lists(st.builds(ToolUse, name=st.text("abc_", min_size=1, max_size=6), input=inputs), max_size=3)
steps = st.builds(
    Step,
    text=texts.filter(bool),
    thinking=st.none() | texts.filter(bool),
    tools=tools.map(tuple[ToolUse, ...]),
)


@every
@given(step=steps, cuts=st.lists(st.integers(0, 4000), max_size=20))
def test_however_an_answer_is_cut_it_is_recorded_and_served_again_the_same(
    wire: Wire, step: Step, cuts: list[int]
) -> None:
    raw = b"".join(wire.frames(step))
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    answer = _answer(wire, [raw[first:last] for first, last in pairwise(edges)])
    assert answer == _answer(wire, [raw])
    assert [ask.arguments for ask in wire.dialect.asks(answer)] == [tool.input for tool in step.tools]
    served = b"".join(wire.dialect.frames(answer))
    assert _answer(wire, [served]) == answer
    one, other = wire.read(raw), wire.read(served)
    assert (one.text, one.calls, one.whole) == (other.text, other.calls, other.whole)


@every
@given(step=steps, at=st.integers(0, 40), junk=st.binary(max_size=60))
def test_whatever_stands_in_a_stream_it_is_an_answer_or_malformed_and_nothing_else(
    wire: Wire, step: Step, at: int, junk: bytes
) -> None:
    frames = wire.frames(step)
    frames.insert(min(at, len(frames)), b"data: " + junk.replace(b"\n", b"").replace(b"\r", b"") + b"\n\n")
    with suppress(Malformed):
        answer = _answer(wire, frames)
        assert [ask.arguments for ask in wire.dialect.asks(answer)] == [tool.input for tool in step.tools]


def _answer(wire: Wire, chunks: list[bytes]) -> Mapping[str, Any]:
    reader, cutter = wire.dialect.reader("m"), Cutter(1 << 20)
    for chunk in chunks:
        for frame in cutter.feed(chunk):
            if reader.read(frame).flow == "end":
                return reader.answer()
    reason = "not whole"
    raise Malformed(reason)
