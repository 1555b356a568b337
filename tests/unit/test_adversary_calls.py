"""What a hostile model answers: ids that come twice, or in the name of another tool."""

from collections.abc import Mapping
from typing import Any

import pytest

from outlast.adapter import Attempt, Deny, Let, ModelAsk, Send, ToolAsk, TurnResult
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.records import CallIntent, CallStarted
from outlast.tool import ToolIO, tool
from outlast.world import World
from tests.unit.engine_desk import Desk, agent_of, opened, records


async def _nothing(_: Mapping[str, Any]) -> object:
    return "done"


class Hostile(Scripted):
    """Its model asks for `asks` in one answer; then it asks for leave to begin each of `begins`."""

    def __init__(self, asks: list[ToolAsk], begins: list[ToolAsk]) -> None:
        super().__init__(built_ins={"Look": BuiltIn(_nothing, "safe"), "Deploy": BuiltIn(_nothing, "never")})
        self.asks, self.begins = asks, begins
        self.verdicts: list[Let | Deny] = []

    async def advance(self, attempt: Attempt) -> TurnResult:
        match await attempt.calls.open_model(ModelAsk("main", "m", "match", {}, [])):
            case Send(call):
                await attempt.calls.settle_model(call, {"text": "go"}, self.asks, None)
            case other:
                raise AssertionError(other)
        for ask in self.begins:
            self.verdicts.append(await attempt.calls.start_tool(ask.harness_id, ask.name, ask.arguments))
        return TurnResult("done")


@pytest.mark.parametrize("first", ["Look", "Deploy"])
async def test_under_an_id_that_comes_twice_in_one_answer_nothing_begins_that_recovery_would_repeat(
    world: World, first: str
) -> None:
    second = "Deploy" if first == "Look" else "Look"
    asks = [ToolAsk("id", first, {}), ToolAsk("id", second, {})]
    hostile = Hostile(asks, [*reversed(asks), *asks])
    agent = agent_of([], adapter=hostile)
    await opened(world, agent)
    await Desk(world).work(agent)
    log = await records(world)
    (intent,) = [one for one in log if isinstance(one, CallIntent) and one.kind == "tool"]
    assert intent.name == first
    assert [isinstance(verdict, Let) for verdict in hostile.verdicts] == [False, True, False, False]
    assert len([one for one in log if isinstance(one, CallStarted)]) == 1


async def test_a_tool_of_the_harness_does_not_begin_under_the_id_of_one_that_the_worker_runs(
    world: World,
) -> None:
    @tool(replay="safe")
    async def look_up(io: ToolIO) -> str:
        """Look."""
        return "there"

    hostile = Hostile(
        [ToolAsk("id", "look_up", {})], [ToolAsk("id", "Deploy", {}), ToolAsk("id", "look_up", {})]
    )
    agent = agent_of([], look_up, adapter=hostile)
    await opened(world, agent)
    await Desk(world).work(agent)
    assert [isinstance(verdict, Let) for verdict in hostile.verdicts] == [False, True]


@pytest.mark.parametrize("name", ["mcp__outlast__x__deploy", "mcp__outlast__refund", "mcp__outlast___x"])
def test_a_tool_of_another_server_whose_name_begins_like_ours_is_the_harness_s(name: str) -> None:
    resolved = ClaudeCode().resolve(name, {}, {})
    assert (resolved.name, resolved.runs_in, resolved.policy) == (name, "harness", "never")
