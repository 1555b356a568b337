"""What begins within a run of the OpenAI Agents SDK: agents as tools, runs in tools and guardrails, MCP, time-outs."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from agents import (
    Agent as TheirAgent,
)
from agents import (
    GuardrailFunctionOutput,
    InputGuardrail,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    function_tool,
)
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as McpTool

from outlast.adapter import Agent
from outlast.adapters.openai_agents import OpenAIAgents
from outlast.adapters.openai_agents.wrapping import agents_as_tools
from outlast.clock import ManualClock, SystemClock
from outlast.errors import BadInput
from outlast.records import CallIntent, TurnParked
from outlast.testing.faults import spots
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records
from tests.unit.test_openai_agents import Provider, Shop, Steps, chat, life, serving, uses

Make = Callable[[Provider, Counter[str]], TheirAgent[Any]]

INNER: Mapping[str, Steps] = {
    "deep": [{"tools": [uses("pay", cents=7)]}, {"text": "Deep."}],
    "high": [{"text": "High."}],
}


def asking(server: Provider, done: Counter[str]) -> TheirAgent[Any]:
    """An agent, one of whose tools is another that pays."""

    @function_tool
    async def pay(cents: int) -> str:
        """Pay once."""
        done[f"pay {cents}"] += 1
        return f"paid {cents}"

    other = TheirAgent[Any]("other", model=chat(server), tools=[pay])
    return TheirAgent[Any]("front", model=chat(server), tools=[other.as_tool("other", "Asks another.")])


def running(server: Provider, done: Counter[str]) -> TheirAgent[Any]:
    """An agent whose tool runs another as any program does."""

    @function_tool
    async def pay(cents: int) -> str:
        """Pay once."""
        done[f"pay {cents}"] += 1
        return f"paid {cents}"

    inner = TheirAgent[Any]("inner", model=chat(server), tools=[pay])

    @function_tool
    async def other(input: str) -> str:  # noqa: A002 - as `as_tool` has it
        """Ask another."""
        return str((await Runner.run(inner, input)).final_output)

    return TheirAgent[Any]("front", model=chat(server), tools=[other])


def running_two(server: Provider, done: Counter[str]) -> TheirAgent[Any]:
    """An agent whose tool runs two others at once."""

    @function_tool
    async def pay(cents: int) -> str:
        """Pay once."""
        done[f"pay {cents}"] += 1
        return f"paid {cents}"

    payer = TheirAgent[Any]("payer", model=chat(server), tools=[pay])
    thinker = TheirAgent[Any]("thinker", model=chat(server))

    @function_tool
    async def other(input: str) -> str:  # noqa: A002 - as `as_tool` has it
        """Ask both."""
        both = await asyncio.gather(Runner.run(payer, input), Runner.run(thinker, "[script:high] think"))
        return " ".join(str(one.final_output) for one in both)

    return TheirAgent[Any]("front", model=chat(server), tools=[other])


def by_mcp(server: Provider, done: Counter[str]) -> TheirAgent[Any]:
    """An agent with a server of tools."""

    class Till(MCPServer):
        @property
        def name(self) -> str:
            return "till"

        async def connect(self) -> None: ...
        async def cleanup(self) -> None: ...
        async def list_prompts(self) -> Any: ...
        async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

        async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[McpTool]:
            return [McpTool(name="other", input_schema={"type": "object", "properties": {}})]

        async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
            done["pay"] += 1
            return CallToolResult(content=[TextContent(type="text", text="paid")])

    return TheirAgent[Any]("front", model=chat(server), mcp_servers=[Till()])


@pytest.mark.crash
@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", [asking, running, running_two, by_mcp])
async def test_what_begins_within_a_run_is_killed_somewhere_and_acts_once(make: Make, seed: int) -> None:
    steps: Steps = [{"tools": [uses("other", input="[script:deep] dig")]}, {"text": "Done."}]
    clock = SystemClock()

    def agent_of(server: Provider, done: Counter[str]) -> Agent:
        return Agent(
            "tester",
            OpenAIAgents(
                make(server, done), policies={"other": "safe"} if make in {running, running_two} else None
            ),
        )

    async with open_memory(MemoryStore(clock)) as world, serving(*steps, **INNER) as server:
        done = Counter[str]()
        await opened(world, agent_of(server, done))
        where = spots((await life(world, clock, agent_of(server, done), "w-1")).crossings)
        assert sum(done.values()) == 1
        asked = server.asked
        models = [one for one in await records(world) if isinstance(one, CallIntent) and one.kind == "model"]
        assert len(models) == asked, "each request is written down"
    for spot in random.Random(seed).sample(where, 8):
        async with open_memory(MemoryStore(clock)) as world, serving(*steps, **INNER) as server:
            done = Counter[str]()
            session = await opened(world, agent_of(server, done))
            await life(world, clock, agent_of(server, done), "w-1", death=spot)
            await life(world, clock, agent_of(server, done), "w-2", dead="w-1")
            log = await records(world)
            assert not [one for one in log if isinstance(one, TurnParked)], str(spot)
            assert (await session.result(1)).value == "Done.", str(spot)
            assert sum(done.values()) <= 1, str(spot)
            assert server.asked <= asked + (2 if make is running_two else 1), str(spot)


async def test_an_agent_as_a_tool_is_safe_since_what_it_did_is_in_the_log() -> None:
    async with serving({"text": "Yes."}) as server:
        front = asking(server, Counter[str]())
        first = TheirAgent[Any]("first", handoffs=[front])
        front.handoffs.append(first)
        assert list(agents_as_tools(first)) == ["other"]


async def test_an_approval_within_an_agent_as_a_tool_waits_for_a_person(
    world: World, clock: ManualClock
) -> None:
    refunds: list[int] = []

    @function_tool(needs_approval=True)
    async def refund(cents: int) -> str:
        """Refund."""
        refunds.append(cents)
        return "refunded"

    steps: Steps = [{"tools": [uses("other", input="[script:deep] dig")]}, {"text": "Done."}]
    deep: Steps = [{"tools": [uses("refund", cents=7)]}, {"text": "Deep."}]
    async with serving(*steps, deep=deep) as server:
        other = TheirAgent[Any]("other", model=chat(server), tools=[refund])
        shop = Shop(chat(server), tools=[other.as_tool("other", "Asks another.")])
        session = await opened(world, shop.durable())
        await Desk(world, clock).work(shop.durable())
        assert (await session.head()).worker is None
        (asked,) = [
            one for one in await records(world) if isinstance(one, CallIntent) and one.name == "person"
        ]
        await session.decide(asked.call, "done", value="allow")
        await Desk(world, clock).work(shop.durable())
        outcome = await session.result(1)
        assert (outcome.value, refunds) == ("Done.", [7]), outcome.error


async def test_what_a_guardrail_asks_a_model_is_written_down(world: World) -> None:
    async with serving({"text": "Done."}, judge=[{"text": "Fine."}]) as server:
        judge = TheirAgent[Any]("judge", model=chat(server))

        async def check(_: RunContextWrapper[Any], __: TheirAgent[Any], ___: Any) -> GuardrailFunctionOutput:
            said = await Runner.run(judge, "[script:judge] is that fine?")
            return GuardrailFunctionOutput(said.final_output, tripwire_triggered=False)

        shop = Shop(chat(server), input_guardrails=[InputGuardrail(check)])
        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        assert (await session.result(1)).value == "Done."
        log = await records(world)
        assert sum(isinstance(one, CallIntent) and one.kind == "model" for one in log) == server.asked == 2


async def test_a_tool_that_took_too_long_is_told_the_same_in_every_attempt() -> None:
    clock, steps = SystemClock(), [{"tools": [uses("slow")]}, {"text": "Done."}]

    @function_tool(timeout=0.01)
    async def slow() -> str:
        """Take long."""
        await asyncio.Event().wait()
        return "never"

    async with open_memory(MemoryStore(clock)) as world, serving(*steps) as server:
        await opened(world, Shop(chat(server), tools=[slow]).durable())
        where = spots((await life(world, clock, Shop(chat(server), tools=[slow]).durable(), "w-1")).crossings)
        assert "timed out" in str(server.body(2)["messages"])
    (late,) = [spot for spot in where if spot.point == "before-settle"]
    async with open_memory(MemoryStore(clock)) as world, serving(*steps) as server:
        session = await opened(world, Shop(chat(server), tools=[slow]).durable())
        await life(world, clock, Shop(chat(server), tools=[slow]).durable(), "w-1", death=late)
        await life(world, clock, Shop(chat(server), tools=[slow]).durable(), "w-2", dead="w-1")
        assert (await session.result(1)).value == "Done."


async def test_a_second_memory_is_refused() -> None:
    with pytest.raises(BadInput, match="session"):
        OpenAIAgents(TheirAgent("front"), more={"session": SQLiteSession("s")})
