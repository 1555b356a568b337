"""Which tool results a model request may bring, and what in it counts as the words of a prompt or a steer."""

import pytest

from outlast.adapter import TakenSteer
from tests.gateway.messages import assistant, end, request, says, stream, text, tool_result, tool_use, user
from tests.gateway.reference import MemoryAttempt
from tests.gateway.stage import RawProvider, Reply, Stage, stage

DONE = stream(says(0, "done"), end())
SUB_AGENT = {"x-claude-code-agent-id": "a1"}


def provider() -> RawProvider:
    return RawProvider(Reply(DONE))


def attempt(prompt: str) -> MemoryAttempt:
    made = MemoryAttempt()
    made.prompt = prompt
    return made


async def begun(on: Stage) -> None:
    """The turn's first request has its answer."""
    assert (await on.ask(request(user(on.attempt.prompt)))).status_code == 200


@pytest.mark.parametrize(
    "beside",
    [
        (),
        (text("<system-reminder>Let us go on</system-reminder>"),),
        (
            text(
                "<system-reminder>\nThe user sent a new message while you were working:\ngo on\n</system-reminder>"
            ),
        ),
    ],
    ids=["nothing", "a reminder", "a steer"],
)
@pytest.mark.parametrize("headers", [{}, SUB_AGENT], ids=["main", "sub-agent"])
async def test_a_result_that_was_not_granted_is_refused_however_short_the_prompt_is(
    beside: tuple[dict[str, str], ...], headers: dict[str, str]
) -> None:
    said = provider()
    async with stage(said, attempt=attempt("go")) as on:
        await begun(on)
        ask = request(user("go"), assistant(tool_use("t9")), user(tool_result("t9", "gone"), *beside))
        refused = await on.ask(ask, **headers)
        assert refused.status_code == 403
        assert "t9" in refused.json()["error"]["message"]
        assert len(said.requests) == len(on.attempt.calls.models) == 1


async def test_a_sub_agent_brings_no_result_that_was_not_granted_even_with_the_words_of_the_prompt() -> None:
    said = provider()
    async with stage(said, attempt=attempt("go")) as on:
        ask = request(user("look"), assistant(tool_use("t9")), user(tool_result("t9"), text("go")))
        assert (await on.ask(ask, **SUB_AGENT)).status_code == 403
        assert not said.requests


@pytest.mark.parametrize("words", ["go", " go\n"])
async def test_a_turn_may_begin_with_results_that_an_earlier_one_left_behind(words: str) -> None:
    said = provider()
    async with stage(said, attempt=attempt("go")) as on:
        ask = request(user("before"), assistant(tool_use("t9")), user(tool_result("t9"), text(words)))
        assert (await on.ask(ask)).status_code == 200


async def test_a_turn_may_begin_again_with_them_when_it_is_resumed_in_other_surroundings() -> None:
    said = provider()
    async with stage(said, attempt=attempt("go")) as on:
        for system in ("monday", "tuesday"):
            ask = request(
                user("before"), assistant(tool_use("t9")), user(tool_result("t9"), text("go")), system=system
            )
            assert (await on.ask(ask)).status_code == 200
        assert len(said.requests) == 2


@pytest.mark.parametrize("wrapped", ["%s", "while you were working:\n%s\n\nThis is how", "<note>%s</note>"])
async def test_a_short_steer_is_found_where_it_stands_and_not_inside_other_words(wrapped: str) -> None:
    async with stage(provider()) as on:
        on.attempt.steers.there = [TakenSteer("s1", "ok")]
        looked = [user("look, a token"), assistant(text("a"))]
        await on.ask(request(*looked, user("broken")))
        assert not on.attempt.steers.taken
        await on.ask(request(*looked, user(text("broken"), text(wrapped % "ok"))))
        assert on.attempt.steers.taken == ["s1"]
