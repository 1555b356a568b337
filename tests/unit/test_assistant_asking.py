"""The ready-made agent loop over both providers' real SDKs, against the scripted model server."""

from contextlib import aclosing
from typing import Literal

import pytest

from outlast.adapter import Agent
from outlast.adapters.assistant import Assistant
from outlast.model import Model
from outlast.models.anthropic import Anthropic
from outlast.models.openai_chat import OpenAIChat
from outlast.testing.models import ScriptedModels, parse_script
from outlast.tool import ToolIO, tool
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, opened

Api = Literal["anthropic", "openai-chat"]

NOTES = "The notes: a cat and a dog."


@tool(replay="safe")
async def look(io: ToolIO, at: str) -> str:
    """Look at something."""
    io.show("looking")
    return f"a picture of {at}, and much more " * 40


def model_of(api: Api, base_url: str) -> Model:
    if api == "anthropic":
        return Anthropic("claude-sonnet-5", api_key="key", base_url=base_url, context_tokens=900)
    return OpenAIChat("gpt-5.5", api_key="key", base_url=f"{base_url}/v1", context_tokens=900)


@pytest.mark.parametrize("api", ["anthropic", "openai-chat"])
async def test_a_conversation_with_a_real_client_is_shown_as_it_comes_and_summed_up_when_it_is_full(
    api: Api,
) -> None:
    pictures = [{"name": "look", "input": {"at": "a cat"}}, {"name": "look", "input": {"at": "a dog"}}]
    script = parse_script(
        {
            "conversations": {
                "default": [{"text": NOTES, "gap_s": 0.03}],
                "first": [
                    {"text": "I look.", "tools": pictures, "usage": {"input_tokens": 200}},
                    {"text": "Notes of two pictures."},
                ],
            }
        }
    )
    async with ScriptedModels.serve(script) as server, open_memory() as world:
        agent = Agent("tester", Assistant(model_of(api, server.base_url), "Be brief."), tools=[look])
        session = await opened(world, agent, "s-1", "[script:first] What is there?")
        shown: list[str] = []
        async with Desk(world).working(agent) as working, aclosing(session.follow()) as events:
            async for event in events:
                if event.kind == "call.text" and event.lane == "main":
                    shown.append(event.text)
                if event.kind == "turn.settled":
                    break
            await working
        # The script's second step answers whoever sums up; what goes on from the notes has no marker left.
        assert str(await session.result(1)) == NOTES
    assert "The notes: a cat" in "".join(shown)  # the last pieces may come with the outcome only
    assert len(server.requests) == 3
