"""A sub-agent is known by the prompt that its caller gave it."""

from collections.abc import Mapping
from typing import Any

from outlast.adapter import Agent, Attempt, ModelAsk, Resolved, Send, ToolAsk, ToolResult, TurnResult
from outlast.adapters.scripted import Scripted
from outlast.records import CallIntent
from outlast.tool import Tool
from outlast.world import World
from tests.unit.engine_desk import Desk, opened, records

PROMPTS = ["count", "count the files", "the files"]


class Spawning(Scripted):
    """Begins three sub-agents with one answer; their first requests come the other way round."""

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return Resolved(name, "harness", "safe", spawns=str(arguments["prompt"]))

    async def advance(self, attempt: Attempt) -> TurnResult:
        calls = attempt.calls
        main = await calls.open_model(ModelAsk("main", "m", "first", {}, [{"role": "user", "content": "go"}]))
        assert isinstance(main, Send)
        asks = [ToolAsk(f"t-{prompt}", "Task", {"prompt": prompt}) for prompt in PROMPTS]
        await calls.settle_model(main.call, {"text": "off you go"}, asks, None)
        for prompt in reversed(PROMPTS):
            message = {"role": "user", "content": f"You are a helper. {prompt}"}
            begun = await calls.open_model(ModelAsk(f"agent {prompt}", "m", prompt, {}, [message]))
            assert isinstance(begun, Send)
            await calls.settle_model(begun.call, {"text": "done"}, [], None)
        for prompt in PROMPTS:
            await calls.settle_tool(f"t-{prompt}", ToolResult("ok", "done"))
        return TurnResult("done")


async def test_prompts_that_stand_within_one_another_are_told_apart(world: World) -> None:
    agent = Agent("tester", Spawning())
    await opened(world, agent)
    await Desk(world).work(agent)
    intents = [record for record in await records(world) if isinstance(record, CallIntent)]
    prompt_of = {one.call: one.arguments.value()["prompt"] for one in intents if one.kind == "tool"}
    lanes = [(one.match, prompt_of[one.asked_by]) for one in intents if one.lane.startswith("sub")]
    assert sorted(lanes) == [(prompt, prompt) for prompt in sorted(PROMPTS)]
