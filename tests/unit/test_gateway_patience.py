"""A provider that fails for a moment costs no attempt: it is asked again while the harness still waits."""

from contextlib import suppress

import anyio
import httpx
import pytest

from outlast.errors import ModelCallFailed
from outlast.gateway import Limits
from tests.gateway.reference import PlainDialogue, until
from tests.gateway.stage import RawProvider, Reply, stage
from tests.gateway.wires import SAYS, WIRES

WIRE = WIRES[0]
HELLO = WIRE.request(WIRE.user("hello"))
ANSWER = Reply(WIRE.frames(SAYS))
LIMITS = Limits(again_s=(0.0, 0.01))
pytestmark = pytest.mark.timeout(20)


def declined(status: int = 529, **headers: str) -> Reply:
    return Reply([b"{}"], kind="application/json", status=status, headers=headers)


def eager(*, retries: bool = True) -> PlainDialogue:
    """A harness that would ask again by itself."""
    dialogue = PlainDialogue()
    dialogue.retries = retries
    return dialogue


async def test_what_passes_soon_is_waited_for_and_each_failure_is_written_down() -> None:
    said = RawProvider(declined(), declined(429, **{"retry-after": "0"}), ANSWER)
    async with stage(said, dialogue=eager(), limits=LIMITS) as on:
        response = await on.ask(HELLO)
        (call,) = on.attempt.calls.models
    assert (response.status_code, WIRE.read(response.content).text) == (200, SAYS.text)
    assert [reason for reason, _ in call.voided] == ["HTTP 529", "HTTP 429"]
    assert [sent.body for sent in said.requests] == [said.requests[0].body] * 3


async def test_a_sub_agent_is_left_waiting_too() -> None:
    said = RawProvider(declined(), ANSWER)
    async with stage(said, dialogue=eager(retries=False), limits=LIMITS) as on:
        assert (await on.ask(HELLO, **{"x-claude-code-agent-id": "helper"})).status_code == 200


@pytest.mark.parametrize(
    ("replies", "asked"),
    [
        ([declined()], 3),
        ([declined(429, **{"retry-after": "3600"})], 1),
        ([Reply([*WIRE.frames(SAYS)[:3], b""], broken=True)], 1),
    ],
    ids=["the pauses are used up", "it wants a longer one", "the harness has heard half an answer"],
)
async def test_what_does_not_pass_soon_ends_the_attempt(replies: list[Reply], asked: int) -> None:
    said = RawProvider(*replies)

    async def ask() -> None:
        async with stage(said, dialogue=eager(), limits=LIMITS) as on:
            with suppress(httpx.HTTPError):
                await on.ask(HELLO)
            await anyio.sleep_forever()

    with pytest.raises(ModelCallFailed):
        await ask()
    assert len(said.requests) == asked


async def test_of_a_harness_that_does_not_ask_again_by_itself_each_failure_is_its_own() -> None:
    said = RawProvider(declined())
    async with stage(said, dialogue=eager(retries=False), limits=LIMITS) as on:
        assert (await on.ask(HELLO)).status_code == 529
    assert len(said.requests) == 1


async def test_a_harness_that_is_gone_is_not_waited_for() -> None:
    said = RawProvider(declined())
    async with stage(said, dialogue=eager(), limits=Limits(again_s=(3600.0,), close_s=60.0)) as on:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(on.ask, HELLO)
            await until(lambda: bool(on.attempt.calls.models and on.attempt.calls.models[0].voided))
            tasks.cancel_scope.cancel()
        await on.client.aclose()
    assert len(said.requests) == 1, "and nothing is left of it that the gateway would wait for at its end"
