"""Model requests through the gateway: a real HTTP client, a provider that says what it is told to, calls in memory."""

import random
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest

from outlast.adapter import TakenSteer, ToolResult
from outlast.clock import SystemClock
from outlast.errors import AttemptLost, BadSettings, ModelCallFailed, TurnStopped
from outlast.gate import Point
from outlast.gateway import ApiKey, Bearer, Limits, Login, Open, Subscription, open_gateway
from outlast.testing.models import ScriptedModels, parse_script
from outlast.testing.models.script import Garbage
from tests.gateway.messages import (
    MODEL,
    assistant,
    begin,
    calls,
    delta,
    end,
    event,
    read,
    request,
    says,
    start,
    stream,
    text,
    thinks,
    tool_result,
    tool_use,
    user,
)
from tests.gateway.reference import GOING_ON, MemoryAttempt, PlainDialogue, until
from tests.gateway.stage import RawProvider, Reply, Stage, stage

HELLO = request(user("hello"))
ANSWER = stream(
    thinks(0, "hm"), says(1, "I ", "look"), calls(2, "t1", '{"command":', '"ls"}'), end("tool_use")
)
DONE = stream(says(0, "done"), end())
MESSAGE = {**read(ANSWER), "usage": read(ANSWER)["usage"]}


def provider(*chunks: bytes | anyio.Event) -> RawProvider:
    return RawProvider(Reply(chunks))


# who is let in


@pytest.mark.parametrize(
    "headers", [{"x-api-key": "guessed"}, {"x-api-key": "", "authorization": "Bearer guessed"}]
)
async def test_an_unknown_token_is_refused_so_that_a_harness_stops_at_once(headers: dict[str, str]) -> None:
    said = provider(*ANSWER)
    async with stage(said) as on:
        response = await on.ask(HELLO, **headers)
        assert response.status_code == 403
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert not said.requests


async def test_a_token_opens_nothing_once_its_attempt_is_over() -> None:
    said = provider(*ANSWER)
    async with stage(said) as on:
        async with on.gateway.admit(MemoryAttempt(), PlainDialogue()) as door:
            assert door.token != on.door.token
            assert (await on.ask(HELLO, **{"x-api-key": door.token})).status_code == 200
        response = await on.ask(HELLO, **{"x-api-key": door.token})
        assert (response.status_code, response.json()["error"]["type"]) == (403, "invalid_request_error")
        assert (await on.ask(HELLO)).status_code == 200
        assert len(said.requests) == 2


async def test_a_bearer_token_lets_in_as_well_as_an_api_key() -> None:
    async with stage(provider(*ANSWER)) as on:
        bearer = {"x-api-key": "", "authorization": f"Bearer {on.door.token}"}
        assert (await on.ask(HELLO, **bearer)).status_code == 200


async def test_each_attempt_has_its_own_calls() -> None:
    async with stage(provider(*ANSWER)) as on:
        other = MemoryAttempt()
        async with on.gateway.admit(other, PlainDialogue()) as door:
            await on.ask(HELLO, **{"x-api-key": door.token})
        assert len(other.calls.models) == 1
        assert not on.attempt.calls.models


async def test_a_dialect_that_nobody_speaks_is_refused_at_the_door() -> None:
    async with stage(provider()) as on:
        with pytest.raises(BadSettings):
            async with on.gateway.admit(MemoryAttempt(), PlainDialogue(dialect="klingon")):
                pass


async def test_a_unix_socket_lets_in_as_well(tmp_path: Path) -> None:
    said = provider(*ANSWER)
    path = tmp_path / "gateway.sock"
    async with (
        said.serving(),
        open_gateway(upstream=Open(said.base_url), clock=SystemClock(), unix=path) as gateway,
    ):
        assert path.stat().st_mode & 0o777 == 0o600
        async with gateway.admit(MemoryAttempt(), PlainDialogue()) as door:
            transport = httpx.AsyncHTTPTransport(uds=str(path))
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway.invalid") as client:
                body = msgspec.json.encode(HELLO)
                response = await client.post("/v1/messages", content=body, headers={"x-api-key": door.token})
                assert read(response.content)["content"] == MESSAGE["content"]
    assert not path.exists()


# what goes upstream


async def test_the_harness_own_bytes_go_upstream_when_nothing_had_to_change() -> None:
    said = provider(*ANSWER)
    body = b'{ "model":"m" , "stream":true,\n"messages":[ {"content":"h\\u00e9","role":"user"} ],"x":1.50 }'
    async with stage(said) as on:
        await on.ask(body)
        assert said.requests[0].body == body
        assert said.requests[0].line == "POST /v1/messages?beta=true HTTP/1.1"


async def test_headers_are_passed_on_without_the_token() -> None:
    said = RawProvider(Reply(ANSWER, headers={"request-id": "r1", "connection": "x-hop", "x-hop": "1"}))
    async with stage(said) as on:
        response = await on.ask(
            HELLO, **{"anthropic-beta": "b1", "user-agent": "harness/1", "accept-encoding": "br"}
        )
        sent = said.requests[0].headers
        assert (sent["anthropic-beta"], sent["user-agent"]) == ("b1", "harness/1")
        assert sent["accept-encoding"] == "identity"
        assert on.door.token not in "".join(sent.values())
        assert response.headers["request-id"] == "r1"
        assert "x-hop" not in response.headers


async def test_a_proxy_of_the_environment_does_not_stand_between_servers_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = provider(*ANSWER)
    async with said.serving():
        with monkeypatch.context() as patched:
            patched.setenv("HTTP_PROXY", "http://127.0.0.1:9")
            patched.setenv("NO_PROXY", "")
            async with open_gateway(upstream=Open(said.base_url), clock=SystemClock()) as gateway:
                patched.undo()
                async with gateway.admit(MemoryAttempt(), PlainDialogue()) as door:
                    headers = {"x-api-key": door.token}
                    async with httpx.AsyncClient(base_url=door.base_url, headers=headers) as client:
                        assert (await client.post("/v1/messages", json=HELLO)).status_code == 200


async def test_the_credential_is_added_outside_the_harness(tmp_path: Path) -> None:
    said = provider(*ANSWER)
    file = tmp_path / "credentials.json"
    file.write_bytes(msgspec.json.encode({"claudeAiOauth": {"accessToken": "secret"}}))
    async with said.serving():
        url = said.base_url + "/"
        for upstream in (
            ApiKey("secret", url),
            Bearer("secret", url),
            Subscription("secret", url),
            Login(file, url),
        ):
            assert "secret" not in repr(upstream)
            async with stage(upstream) as on:
                assert (await on.ask(HELLO, **{"anthropic-beta": "b1"})).status_code == 200
    key, bearer, token, login = (asked.headers for asked in said.requests)
    assert (key["x-api-key"], key.get("authorization")) == ("secret", None)
    assert (bearer["authorization"], bearer.get("x-api-key")) == ("Bearer secret", None)
    for subscribed in (token, login):
        assert subscribed["authorization"] == "Bearer secret"
        assert subscribed["anthropic-beta"] == "b1,oauth-2025-04-20"


async def test_without_a_login_the_harness_is_told_to_stop_and_why(tmp_path: Path) -> None:
    async with stage(Login(tmp_path / "none.json")) as on:
        response = await on.ask(HELLO)
        assert response.status_code == 403
        assert "log in" in response.json()["error"]["message"]
        assert on.attempt.calls.models[0].voided[0][0] == "no credential"


async def test_what_a_resumed_harness_adds_reaches_neither_the_provider_nor_the_log() -> None:
    said = provider(*ANSWER)
    async with stage(said) as on:
        await on.ask(HELLO)
        await on.ask(request(user(text("hello"), text(GOING_ON))))
        assert [asked.json["messages"] for asked in said.requests][1] == [user(text("hello"))]
        first, second = on.attempt.calls.models
        assert first.ask.match == second.ask.match


async def test_the_logs_result_takes_the_place_of_the_harness_own() -> None:
    said = provider(*DONE)
    async with stage(said) as on:
        on.attempt.calls.grant("t1")
        on.attempt.calls.results["t1"] = ToolResult("in_doubt", "It may have run.")
        ran = [user("hello"), assistant(tool_use("t1"))]
        marked = tool_result("t1", "aborted", cache_control={"type": "ephemeral"})
        await on.ask(request(*ran, user(marked)))
        told = tool_result("t1", "It may have run.", cache_control={"type": "ephemeral"}, is_error=True)
        assert said.requests[0].json["messages"][-1] == user(told)
        await on.ask(request(*ran, user(tool_result("t1", "something else"))))
        first, second = on.attempt.calls.models
        assert first.ask.match == second.ask.match


async def test_a_result_of_a_call_that_was_never_granted_is_refused() -> None:
    said = provider(*DONE)
    async with stage(said) as on:
        response = await on.ask(
            request(user("hello"), assistant(tool_use("t9")), user(tool_result("t9", "x")))
        )
        assert response.status_code == 403
        assert "t9" in response.json()["error"]["message"]
        assert not said.requests
        assert not on.attempt.calls.models


async def test_results_before_the_last_answer_are_of_earlier_turns_and_pass() -> None:
    async with stage(provider(*DONE)) as on:
        earlier = [user("hi"), assistant(tool_use("t9")), user(tool_result("t9", "x")), assistant(text("so"))]
        assert (await on.ask(request(*earlier, user("more")))).status_code == 200


async def test_results_that_an_earlier_turn_left_behind_pass_with_the_next_prompt() -> None:
    async with stage(provider(*DONE)) as on:
        left = [user("hi"), assistant(tool_use("t9")), user(tool_result("t9", "x")), user(on.attempt.prompt)]
        assert (await on.ask(request(*left))).status_code == 200


async def test_how_a_call_ended_that_no_hook_told_of_is_read_from_the_next_request() -> None:
    async with stage(provider(*DONE)) as on:
        on.attempt.calls.grant("t1")
        await on.ask(
            request(user("hello"), assistant(tool_use("t1")), user(tool_result("t1", "x", is_error=True)))
        )
        assert on.attempt.calls.results["t1"] == ToolResult("error", [text("x")])


async def test_a_result_that_an_earlier_turn_was_told_passes() -> None:
    async with stage(provider(*DONE)) as on:
        on.attempt.calls.results["t9"] = ToolResult("cancelled", "x")
        asked = request(user("hi"), assistant(tool_use("t9")), user(tool_result("t9", "x"), text("more")))
        assert (await on.ask(asked)).status_code == 200


async def test_a_request_that_the_dialogue_complains_about_is_refused() -> None:
    said = provider(*DONE)
    async with stage(said) as on:
        on.dialogue.grievance = "our tools are missing"
        response = await on.ask(HELLO)
        assert response.status_code == 403
        assert "our tools are missing" in response.text
        assert not said.requests


async def test_a_body_that_is_no_request_is_refused() -> None:
    async with stage(provider(*DONE)) as on:
        response = await on.ask(b'{"messages":')
        assert (response.status_code, response.json()["type"]) == (400, "error")
        assert not on.attempt.calls.models


async def test_a_sub_agents_requests_are_in_a_lane_of_their_own() -> None:
    async with stage(provider(*DONE)) as on:
        await on.ask(HELLO)
        await on.ask(HELLO, **{"x-claude-code-agent-id": "a1"})
        assert [call.ask.lane for call in on.attempt.calls.models] == ["main", "a1"]


# when the harness gets it


async def test_text_flows_at_once_and_the_end_of_a_block_waits_for_the_log() -> None:
    go_on = anyio.Event()
    said = provider(
        *stream(says(0, "I ", "look")[:-1]), go_on, says(0)[-1], *calls(1, "t1", "{}"), *end("tool_use")
    )
    async with stage(said, limits=Limits(calm_s=0.02)) as on:
        logged = on.attempt.gate.hold(Point.OUTCOME_QUEUED)
        async with on.asking(HELLO) as hearing:
            assert b"content_block_stop" not in await hearing.until(b"look")
            assert not on.attempt.gate.count(Point.AFTER_EFFECT)
            go_on.set()
            await until(lambda: on.attempt.gate.count(Point.OUTCOME_QUEUED))
            pings = hearing.heard.count(b"event: ping")
            while hearing.heard.count(b"event: ping") < pings + 3:
                await hearing.more()
            assert b"content_block_stop" not in hearing.heard
            assert b"tool_use" not in hearing.heard
            logged.set()
            assert read(await hearing.rest())["content"] == [text("I look"), tool_use("t1")]
        assert "t1" in on.attempt.calls.intents


async def test_watchers_see_at_once_what_the_harness_has_to_wait_for() -> None:
    never = anyio.Event()
    said = provider(
        *stream(thinks(0, "hm")), begin(1, text("")), delta(1, "text_delta", text="I look"), never
    )
    async with stage(said) as on, on.asking(HELLO) as hearing:
        await until(lambda: on.attempt.calls.shown == [(1, "thinking", "hm"), (1, "text", "I look")])
        assert b"I look" not in await hearing.until(b"signature_delta")
        never.set()


async def test_an_answer_at_once_waits_for_the_log_too() -> None:
    body = msgspec.json.encode(MESSAGE)
    async with stage(RawProvider(Reply([body], kind="application/json"))) as on:
        logged = on.attempt.gate.hold(Point.OUTCOME_QUEUED)
        responses: list[httpx.Response] = []
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                responses.append(await on.ask({**HELLO, "stream": False}))

            tasks.start_soon(ask)
            await until(lambda: on.attempt.gate.count(Point.OUTCOME_QUEUED))
            assert not responses
            logged.set()
        assert responses[0].content == body
        assert on.attempt.calls.models[0].answer == MESSAGE


async def test_the_points_of_a_call_are_crossed_in_order() -> None:
    async with stage(provider(*ANSWER)) as on:
        await on.ask(HELLO)
        await until(lambda: on.attempt.gate.count(Point.DELIVERED))
        assert [point for point, _ in on.attempt.gate.crossed] == [
            Point.BEFORE_INTENT,
            Point.AFTER_INTENT,
            Point.IN_EFFECT,
            Point.IN_EFFECT,
            Point.AFTER_EFFECT,
            Point.OUTCOME_QUEUED,
            Point.AFTER_OUTCOME,
            Point.DELIVERED,
        ]
        assert on.attempt.calls.reached == {1}


@pytest.mark.parametrize("round_", range(5))
async def test_chunks_do_not_change_the_bytes_that_are_let_through(round_: int, seed: int) -> None:
    draw = random.Random(seed + round_)
    raw = b"".join([*ANSWER[:-1], event("ping"), b": a comment\n\n", ANSWER[-1]])
    cuts = sorted(draw.randrange(len(raw)) for _ in range(draw.randrange(40)))
    chunks = [raw[first:last] for first, last in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    async with stage(provider(*chunks)) as on:
        response = await on.ask(HELLO)
        calm = event("ping") + b": a comment\n\n"
        assert response.content.replace(calm, b"") == raw.replace(calm, b"")
        assert on.attempt.calls.models[0].answer == MESSAGE


async def test_bytes_after_the_end_of_the_answer_are_not_passed_on() -> None:
    async with stage(
        provider(*DONE, event("content_block_start", index=9, content_block=tool_use("t9")))
    ) as on:
        assert b"t9" not in (await on.ask(HELLO)).content
        assert on.attempt.calls.models[0].answer is not None


# asked again


async def test_a_call_goes_on_without_the_harness_and_is_served_when_it_comes_back() -> None:
    go_on = anyio.Event()
    said = provider(*ANSWER[:4], go_on, *ANSWER[4:])
    async with stage(said) as on:
        async with on.asking(HELLO) as hearing:
            await hearing.until(b"message_start")
        go_on.set()
        await until(lambda: on.attempt.calls.models[0].answer)
        assert not on.attempt.calls.reached
        response = await on.ask(HELLO)
        assert read(response.content) == MESSAGE
        assert len(said.requests) == 1
        assert on.attempt.calls.reached == {1}


async def test_the_same_request_joins_the_call_that_is_under_way() -> None:
    go_on = anyio.Event()
    said = provider(*ANSWER[:4], go_on, *ANSWER[4:])
    async with stage(said) as on:
        async with on.asking(HELLO) as hearing:
            await hearing.until(b"message_start")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_when_joined, on, go_on)
            assert read((await on.ask(HELLO)).content) == MESSAGE
        assert len(said.requests) == 1


async def test_a_joined_call_that_comes_to_nothing_is_asked_again() -> None:
    go_on = anyio.Event()
    said = RawProvider(Reply([*ANSWER[:4], go_on], broken=True), Reply(ANSWER))
    async with stage(said) as on:
        async with on.asking(HELLO) as hearing:
            await hearing.until(b"message_start")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_when_joined, on, go_on)
                assert read((await on.ask(HELLO)).content) == MESSAGE
        assert len(said.requests) == 2
        assert len(on.attempt.calls.models) == 1


async def _when_joined(on: Stage, happens: anyio.Event) -> None:
    await until(lambda: on.attempt.calls.joined)
    happens.set()


@pytest.mark.parametrize("streams", [True, False])
async def test_a_recorded_answer_is_served_as_a_stream_or_at_once(streams: bool) -> None:  # noqa: FBT001 - a table
    said = provider(*ANSWER)
    async with stage(said) as on:
        await on.ask(HELLO)
        on.attempt.calls.reached.clear()
        response = await on.ask({**HELLO, "stream": streams})
        assert (read(response.content) if streams else response.json()) == MESSAGE
        assert len(said.requests) == 1


# what is no answer


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 503, 529])
@pytest.mark.parametrize("streams", [True, False])
async def test_an_error_is_no_answer_and_is_passed_on_as_it_is(status: int, streams: bool) -> None:  # noqa: FBT001
    body = msgspec.json.encode({"type": "error", "error": {"type": "some_error", "message": "No."}})
    headers = {"retry-after": "7", "x-should-retry": "true"}
    said = RawProvider(Reply([body], kind="application/json", status=status, headers=headers), Reply(ANSWER))
    async with stage(said) as on:
        response = await on.ask({**HELLO, "stream": streams})
        assert (response.status_code, response.content) == (status, body)
        assert (response.headers["retry-after"], response.headers["x-should-retry"]) == ("7", "true")
        (call,) = on.attempt.calls.models
        assert (call.answer, call.voided) == (None, [(f"HTTP {status}", None)])
        await on.ask(HELLO)
        assert len(said.requests) == 2
        assert call.answer is not None


async def test_a_failure_that_may_pass_ends_the_attempt_of_a_harness_that_would_ask_again_by_itself() -> None:
    dialogue = PlainDialogue()
    dialogue.retries = True
    said = RawProvider(Reply([b"{}"], kind="application/json", status=529))

    async def ask() -> None:
        async with stage(said, dialogue=dialogue, limits=Limits(again_s=())) as on:
            await on.ask(HELLO)
            await anyio.sleep_forever()

    with pytest.raises(ModelCallFailed, match="529"):
        await ask()
    assert len(said.requests) == 1


@pytest.mark.parametrize("garbage", ["json", "sse", "html", "empty", "truncated"])
@pytest.mark.parametrize("streams", [True, False])
async def test_nonsense_is_no_answer_and_an_error_that_may_be_tried_again(
    garbage: Garbage,
    streams: bool,  # noqa: FBT001 - a table
) -> None:
    script = parse_script({"conversations": {"default": [{"text": "hi", "garbage": garbage}]}})
    async with ScriptedModels.serve(script) as models, stage(models.base_url) as on:
        asked = {**HELLO, "stream": streams}
        if garbage == "truncated" and streams:
            with pytest.raises(httpx.RemoteProtocolError):
                await on.ask(asked)
        else:
            response = await on.ask(asked)
            assert (response.status_code, response.json()["error"]["type"]) == (502, "api_error")
        (call,) = on.attempt.calls.models
        assert call.answer is None
        assert call.voided[0][0].startswith("nonsense")
        assert (await on.ask(asked)).status_code == 200
        assert call.answer is not None


@pytest.mark.parametrize("after", range(1, 12))
async def test_a_cut_stream_is_no_answer_and_its_cost_is_recorded(after: int) -> None:
    said = RawProvider(Reply(ANSWER[:after], broken=True), Reply(ANSWER))
    async with stage(said) as on:
        with pytest.raises(httpx.RemoteProtocolError):
            await on.ask(HELLO)
        (call,) = on.attempt.calls.models
        ((reason, usage),) = call.voided
        assert "broke" in reason
        assert usage is not None
        assert usage.input_tokens == 10
        assert not on.attempt.calls.intents
        await on.ask(HELLO)
        assert call.answer == MESSAGE


async def test_nothing_of_a_held_block_reaches_the_harness_when_the_stream_is_cut() -> None:
    said = RawProvider(Reply([*stream(calls(0, "t1", "{}")), start()[:10]], broken=True))
    async with stage(said) as on, on.asking(HELLO) as hearing:
        with pytest.raises(httpx.RemoteProtocolError):
            await hearing.rest()
        assert b"partial_json" in hearing.heard
        assert b"content_block_stop" not in hearing.heard


async def test_an_error_in_the_midst_of_a_stream_reaches_the_harness_as_what_it_is() -> None:
    broke = event("error", error={"type": "overloaded_error", "message": "Busy"})
    async with stage(provider(*stream(says(0, "a")), broke)) as on:
        response = await on.ask(HELLO)
        assert response.content.endswith(broke)
        assert b"content_block_stop" not in response.content
        (call,) = on.attempt.calls.models
        ((reason, usage),) = call.voided
        assert "Busy" in reason
        assert usage is not None


async def test_an_answer_that_does_not_begin_in_time_is_void() -> None:
    script = parse_script({"conversations": {"default": [{"text": "hi", "hang": True}]}})
    limits = Limits(silence_s=0.1)
    async with ScriptedModels.serve(script) as models, stage(models.base_url, limits=limits) as on:
        response = await on.ask(HELLO)
        assert (response.status_code, response.json()["error"]["type"]) == (504, "timeout_error")
        assert "in time" in on.attempt.calls.models[0].voided[0][0]


async def test_an_answer_that_does_not_end_in_time_is_void() -> None:
    async with stage(provider(*ANSWER[:4], anyio.Event()), limits=Limits(total_s=0.1)) as on:
        with pytest.raises(httpx.RemoteProtocolError):
            await on.ask(HELLO)
        ((reason, usage),) = on.attempt.calls.models[0].voided
        assert "in time" in reason
        assert usage is not None


async def test_a_provider_that_cannot_be_reached_is_an_error_that_may_be_tried_again() -> None:
    async with stage("http://127.0.0.1:9") as on:
        response = await on.ask(HELLO)
        assert (response.status_code, response.json()["error"]["type"]) == (502, "api_error")
        assert "broke" in on.attempt.calls.models[0].voided[0][0]


async def test_an_answer_over_the_limit_is_void() -> None:
    large = b"".join(stream(says(0, "x" * 5000), end()))
    async with stage(provider(large), limits=Limits(answer_bytes=2000)) as on:
        assert (await on.ask(HELLO)).status_code == 502
        assert "longer" in on.attempt.calls.models[0].voided[0][0]


# the attempt is over


async def test_a_parked_turn_lets_nothing_through_any_more() -> None:
    said = provider(*ANSWER)
    async with stage(said) as on:
        on.attempt.calls.parked = "diverged"
        for _ in range(2):
            response = await on.ask(HELLO)
            assert (response.status_code, response.json()["error"]["type"]) == (403, "invalid_request_error")
            assert "diverged" in response.text
        assert not said.requests


@pytest.mark.parametrize("over", [AttemptLost("fenced"), TurnStopped("cancelled")])
async def test_a_lost_attempt_is_refused(over: BaseException) -> None:
    said = provider(*ANSWER)
    async with stage(said) as on:
        on.attempt.calls.lost = over
        assert (await on.ask(HELLO)).status_code == 403
        on.attempt.calls.lost = None
        assert (await on.ask(HELLO)).status_code == 403
        assert not said.requests


@pytest.mark.parametrize("over", [AttemptLost("fenced"), TurnStopped("cancelled")])
@pytest.mark.parametrize(
    "point", [Point.IN_EFFECT, Point.AFTER_EFFECT, Point.OUTCOME_QUEUED, Point.AFTER_OUTCOME]
)
async def test_an_attempt_that_is_lost_during_a_call_lets_no_block_end(
    over: BaseException, point: Point
) -> None:
    async with stage(provider(*ANSWER)) as on:
        on.attempt.gate.raises[point] = over
        async with on.client.stream("POST", "/v1/messages", json=HELLO) as response:
            heard = b""
            try:
                async for chunk in response.aiter_raw():
                    heard += chunk
            except httpx.RemoteProtocolError:
                assert response.status_code == 200
            else:
                assert response.status_code == 403
        assert b"content_block_stop" not in heard
        assert (await on.ask(HELLO)).status_code == 403
        assert not on.attempt.calls.reached


class Crash(BaseException):
    """What a test's gate raises to end the process."""


@pytest.mark.parametrize("point", [Point.BEFORE_INTENT, Point.IN_EFFECT, Point.AFTER_EFFECT, Point.DELIVERED])
async def test_what_ends_the_process_ends_the_attempt_and_passes_for_nothing_else(point: Point) -> None:
    attempt = MemoryAttempt()
    attempt.gate.raises[point] = Crash()
    with pytest.raises(Crash):
        await _ask_and_wait(attempt)


async def _ask_and_wait(attempt: MemoryAttempt) -> None:
    async with stage(provider(*ANSWER), attempt=attempt) as on:
        with suppress(httpx.HTTPError):
            await on.ask(HELLO)
        await anyio.sleep_forever()


async def test_what_an_attempt_raises_comes_out_of_its_door_as_it_is() -> None:
    async with stage(provider()) as on:
        with pytest.raises(AttemptLost):
            await _lose(on)


async def _lose(on: Stage) -> None:
    async with on.gateway.admit(MemoryAttempt(), PlainDialogue()):
        raise AttemptLost("fenced")


async def test_a_call_under_way_when_the_attempt_ends_is_cut_and_its_cost_recorded() -> None:
    attempt = MemoryAttempt()
    async with stage(provider(*ANSWER[:4], anyio.Event())) as on:
        async with on.gateway.admit(attempt, PlainDialogue()) as door:
            headers = {"x-api-key": door.token}
            async with on.asking(HELLO, **headers) as hearing:
                await hearing.until(b"message_start")
        ((reason, usage),) = attempt.calls.models[0].voided
        assert "ended" in reason
        assert usage is not None


async def test_the_gateway_closes_in_time_with_harnesses_still_connected() -> None:
    with anyio.fail_after(5):
        async with httpx.AsyncClient() as client:
            async with stage(provider(*ANSWER[:4], anyio.Event()), limits=Limits(close_s=0.2)) as on:
                ask = client.build_request(
                    "POST",
                    on.door.base_url + "/v1/messages",
                    json=HELLO,
                    headers={"x-api-key": on.door.token},
                )
                response = await client.send(ask, stream=True)
            await response.aclose()


# hello


async def test_without_a_hello_nothing_goes_upstream() -> None:
    said = provider(*ANSWER)
    async with stage(said, dialogue=PlainDialogue(greets=True), limits=Limits(hello_s=0.05)) as on:
        response = await on.ask(HELLO)
        assert response.status_code == 403
        assert "hello" in response.text
        assert not said.requests
        assert not on.attempt.calls.models


async def test_a_hello_that_comes_a_little_late_is_waited_for() -> None:
    async with (
        stage(provider(*ANSWER), dialogue=PlainDialogue(greets=True)) as on,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(on.hook, "hello", {"cwd": "x"})
        assert (await on.ask(HELLO)).status_code == 200


# steers


async def test_a_steer_is_consumed_by_the_request_that_brings_it() -> None:
    async with stage(provider(*DONE)) as on:
        on.attempt.steers.there = [TakenSteer("s1", "use tabs\n"), TakenSteer("s2", "later")]
        await on.ask(HELLO)
        assert not on.attempt.steers.taken
        await on.ask(request(user("hello"), assistant(text("a")), user(text("<note>use tabs</note>"))))
        assert on.attempt.steers.taken == ["s1"]
        assert on.attempt.calls.models[-1].steers == ["s1"]


@pytest.mark.parametrize("lane", ["main", "sub"])
async def test_a_steer_is_not_consumed_by_old_words_nor_by_a_sub_agent(lane: str) -> None:
    async with stage(provider(*DONE)) as on:
        on.attempt.steers.there = [TakenSteer("s1", "use tabs")]
        if lane == "main":
            await on.ask(request(user("use tabs"), assistant(text("a")), user("use tabs")))
        else:
            await on.ask(request(user("use tabs")), **{"x-claude-code-agent-id": "a1"})
        assert not on.attempt.steers.taken


# limits


async def test_a_request_over_the_limit_is_refused_before_it_is_read() -> None:
    said = provider(*ANSWER)
    async with stage(said, limits=Limits(request_bytes=1000)) as on:
        assert (await on.ask(request(user("x" * 2000)))).status_code == 413
        response = await on.client.post("/v1/messages", content=_in_pieces(b"x" * 600, b"x" * 600))
        assert response.status_code == 413
        assert not said.requests


async def _in_pieces(*pieces: bytes) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


async def test_too_many_requests_at_a_time_are_turned_away() -> None:
    go_on = anyio.Event()
    async with stage(provider(*ANSWER[:4], go_on, *ANSWER[4:]), limits=Limits(requests=1)) as on:
        async with on.asking(HELLO) as hearing:
            await hearing.until(b"message_start")
            assert (await on.ask(request(user("another")))).status_code == 429
            go_on.set()
            await hearing.rest()
        assert (await on.ask(request(user("another")))).status_code == 200


async def test_a_harness_that_takes_nothing_holds_up_neither_its_call_nor_others() -> None:
    large = stream(says(0, *["x" * 100_000] * 100), end())
    async with stage(provider(*large), limits=Limits(send_s=0.2)) as on:
        async with on.client.stream("POST", "/v1/messages", json=HELLO):
            await until(lambda: on.attempt.calls.models and on.attempt.calls.models[0].answer)
            assert (await on.client.get("/v1/models")).status_code == 200
        assert not on.attempt.calls.reached


async def test_a_body_that_does_not_come_is_not_waited_for_long() -> None:
    async with stage(provider(*ANSWER), limits=Limits(body_s=0.1)) as on:
        host, port = on.door.base_url.removeprefix("http://").split(":")
        stream_ = await anyio.connect_tcp(host, int(port))
        async with stream_:
            head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {on.door.token}\r\ncontent-length: 9\r\n\r\n"
            await stream_.send(head.encode() + b"{")
            with anyio.fail_after(3), pytest.raises(anyio.EndOfStream):
                await stream_.receive()


# what is no call


async def test_counting_tokens_and_listing_models_pass_without_being_calls() -> None:
    script = parse_script({"conversations": {"default": [{"text": "hi"}]}})
    async with ScriptedModels.serve(script) as models, stage(models.base_url) as on:
        counted = await on.client.post(
            "/v1/messages/count_tokens", json={"model": MODEL, "messages": [user("hi")]}
        )
        assert counted.json()["input_tokens"] > 0
        assert (await on.client.get("/v1/models")).json()["data"]
        assert (await on.client.head("/")).status_code == 200
        assert not on.attempt.calls.models


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/complete", "/anything"])
async def test_nothing_else_passes(path: str) -> None:
    said = provider(*ANSWER)
    async with stage(said) as on:
        response = await on.client.post(path, json=HELLO)
        assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")
        assert not said.requests


async def test_a_scripted_turn_goes_through_with_every_call_counted_once() -> None:
    steps = [
        {"thinking": "hm", "text": "I look.", "tools": [{"name": "Bash", "input": {"command": "ls"}}]},
        {"text": "Done."},
    ]
    script = parse_script({"conversations": {"default": steps}})
    async with ScriptedModels.serve(script) as models, stage(models.base_url) as on:
        first = read((await on.ask(HELLO)).content)
        call = first["content"][-1]["id"]
        await on.hook("before", {"id": call, "name": "Bash", "input": {}})
        await on.hook("after", {"id": call, "name": "Bash", "output": "a.txt"})
        again = request(user("hello"), assistant(*first["content"]), user(tool_result(call, "a.txt")))
        last = read((await on.ask(again)).content)
        assert last["content"] == [text("Done.")]
        assert len(models.requests) == 2
        used = [model.usage for model in on.attempt.calls.models]
        assert [usage and usage.output_tokens for usage in used] == [
            sent.billed.output_tokens for sent in models.requests
        ]
