"""An agent of pydantic-ai's, as it is: its real models against the scripted server, killed at every point."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent as TheirAgent
from pydantic_ai import ModelRetry
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from outlast.adapter import Agent
from outlast.adapters.foreign import this_call
from outlast.adapters.pydantic_ai import PydanticAI, run_agent
from outlast.clock import Clock, ManualClock, SystemClock
from outlast.gate import Gate
from outlast.records import CallIntent, CallOutcome, TurnParked
from outlast.rules import ask
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.testing.models import ScriptedModels, parse_script
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records, until

Steps = list[dict[str, Any]]


def uses(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool call that a scripted answer asks for."""
    return {"name": name, "input": arguments}


@dataclass
class Provider:
    """The scripted server, and clients of it."""

    server: ScriptedModels
    clients: list[AsyncOpenAI | AsyncAnthropic] = field(default_factory=list[AsyncOpenAI | AsyncAnthropic])

    @property
    def asked(self) -> int:
        """How many requests came."""
        return len(self.server.requests)

    def body(self, number: int) -> dict[str, Any]:
        """What the request of this number asks, from 1 on."""
        body = self.server.find_body(number)
        assert body is not None
        return json.loads(body)


@asynccontextmanager
async def serving(*steps: dict[str, Any], **others: Steps) -> AsyncGenerator[Provider]:
    script = parse_script({"conversations": {"default": list(steps), **others}})
    async with ScriptedModels.serve(script) as server:
        provider = Provider(server)
        try:
            yield provider
        finally:
            for client in provider.clients:
                await client.close()


def openai(provider: Provider) -> Model:
    client = AsyncOpenAI(api_key="k", base_url=f"{provider.server.base_url}/v1", max_retries=0)
    provider.clients.append(client)
    return OpenAIChatModel("gpt-5.5", provider=OpenAIProvider(openai_client=client))


def anthropic(provider: Provider) -> Model:
    client = AsyncAnthropic(api_key="k", base_url=provider.server.base_url, max_retries=0)
    provider.clients.append(client)
    return AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(anthropic_client=client))


class Shop:
    """What is outside, and an agent that knows nothing of us."""

    def __init__(self, model: Model, **more: Any) -> None:
        self.done: Counter[str] = Counter()
        self.tries = 0
        self.agent: TheirAgent[Any, Any] = TheirAgent(model, instructions="Be brief.", **more)
        self.agent.tool_plain(self.pay)
        self.agent.tool_plain(metadata={"outlast": "safe"})(self.look)

    async def pay(self, cents: int) -> str:
        """Pay once."""
        self.done[f"pay {cents}"] += 1
        return f"paid {cents}"

    async def look(self, at: str) -> dict[str, Any]:
        """Look at something."""
        self.done["look"] += 1
        return {"at": at, "seen": [1, 2.5, None]}

    def durable(self, **more: Any) -> Agent:
        rules = more.pop("rules", ())
        tools = more.pop("tools", ())
        return Agent("tester", PydanticAI(self.agent, **more), rules=rules, tools=tools)


async def life(
    world: World, clock: Clock, agent: Agent, name: str, *, death: Spot | None = None, dead: str = ""
) -> RecordingGate:
    """One worker, to its death or until nothing is left to do."""
    mortal, record = MortalWorld(world), RecordingGate()
    gate: Gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, clock, gate, name, frozenset({dead})).work(agent)
    return record


STORY: Steps = [
    {"text": "I look.", "tools": [uses("look", at="81"), uses("pay", cents=1)]},
    {"tools": [uses("pay", cents=2)]},
    {"text": "All paid."},
]


@pytest.mark.parametrize("model", [openai, anthropic])
async def test_an_agent_as_it_is_carries_a_turn(world: World, model: Any) -> None:
    async with serving(*STORY) as server:
        shop = Shop(model(server))
        agent = shop.durable()
        session = await opened(world, agent)
        await Desk(world).work(agent)
        outcome = await session.result(1)
        assert (outcome.status, outcome.value) == ("done", "All paid."), outcome.error
        assert shop.done == {"look": 1, "pay 1": 1, "pay 2": 1}
        log = await records(world)
        intents = [(one.kind, one.name, one.policy) for one in log if isinstance(one, CallIntent)]
        name = "openai:gpt-5.5" if model is openai else "anthropic:claude-sonnet-5"
        assert intents == [
            ("model", name, "safe"),
            ("tool", "look", "safe"),
            ("tool", "pay", "never"),
            ("model", name, "safe"),
            ("tool", "pay", "never"),
            ("model", name, "safe"),
        ]
        usages = [one.usage for one in log if isinstance(one, CallOutcome) and one.usage]
        assert len(usages) == 3
        assert all(usage.input_tokens and usage.output_tokens and usage.cost_usd for usage in usages)


@pytest.mark.crash
async def test_an_agent_killed_at_every_point_asks_and_pays_once() -> None:
    clock = SystemClock()
    async with open_memory(MemoryStore(clock)) as world, serving(*STORY) as server:
        agent = Shop(openai(server)).durable()
        await opened(world, agent)
        where = spots((await life(world, clock, agent, "w-1")).crossings)
    assert len(where) > 30
    for spot in where:
        async with open_memory(MemoryStore(clock)) as world, serving(*STORY) as server:
            shop = Shop(openai(server))
            session = await opened(world, shop.durable())
            await life(world, clock, shop.durable(), "w-1", death=spot)
            await life(world, clock, shop.durable(), "w-2", dead="w-1")
            log = await records(world)
            parked = [one for one in log if isinstance(one, TurnParked)]
            assert not parked, f"{spot}: {parked}"
            outcome = await session.result(1)
            assert outcome.value == "All paid.", f"{spot}: {outcome.error}"
            assert max(count for name, count in shop.done.items() if "pay" in name) == 1, str(spot)
            finished = Counter(one.call for one in log if isinstance(one, CallOutcome) and one.usage)
            assert sorted(finished.values()) == [1, 1, 1], str(spot)
            assert server.asked <= 4, str(spot)


async def test_the_turns_of_a_session_are_one_conversation(world: World) -> None:
    async with serving({"tools": [uses("pay", cents=1)]}, {"text": "Paid."}, {"text": "One."}) as server:
        shop = Shop(openai(server))
        session = await opened(world, shop.durable(), "s-1", "pay one", "how many?")
        await Desk(world).work(shop.durable())
        assert (await session.result(2)).value == "One."
        messages = server.body(3)["messages"]
        roles = [message["role"] for message in messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


class Receipt(BaseModel):
    cents: int


async def test_an_answer_of_a_type_is_the_result_and_the_next_turn_goes_on(world: World) -> None:
    steps: Steps = [{"tools": [uses("final_result", cents=81)]}, {"tools": [uses("final_result", cents=82)]}]
    async with serving(*steps) as server:
        shop = Shop(openai(server), output_type=Receipt)
        session = await opened(world, shop.durable(), "s-1", "one", "two")
        await Desk(world).work(shop.durable())
        assert (await session.result(1)).value == {"cents": 81}
        assert (await session.result(2)).value == {"cents": 82}
        assert not [one for one in await records(world) if isinstance(one, CallIntent) and one.kind == "tool"]


async def test_retries_that_a_tool_asks_for_are_the_same_in_every_attempt() -> None:
    steps: Steps = [{"tools": [uses("count")]}, {"tools": [uses("count")]}, {"text": "Counted."}]
    clock = SystemClock()

    def agent_of(server: Provider, calls: list[int]) -> Agent:
        shop = Shop(openai(server))

        @shop.agent.tool_plain(retries=2)
        async def count() -> str:
            """Count."""
            calls.append(1)
            if len(calls) == 1:
                raise ModelRetry("Once more, please.")
            return "two"

        return shop.durable()

    async with open_memory(MemoryStore(clock)) as world, serving(*steps) as server:
        calls: list[int] = []
        await opened(world, agent_of(server, calls))
        where = spots((await life(world, clock, agent_of(server, calls), "w-1")).crossings)
        assert "Once more, please." in str(server.body(2)["messages"])
    late = [spot for spot in where if spot.point in {"before-intent", "after-outcome", "before-settle"}]
    for spot in late:
        async with open_memory(MemoryStore(clock)) as world, serving(*steps) as server:
            calls = []
            session = await opened(world, agent_of(server, calls))
            await life(world, clock, agent_of(server, calls), "w-1", death=spot)
            await life(world, clock, agent_of(server, calls), "w-2", dead="w-1")
            assert (await session.result(1)).value == "Counted.", str(spot)
            assert len(calls) == 2, str(spot)


async def test_arguments_that_do_not_fit_are_said_to_the_model_and_nothing_runs(world: World) -> None:
    async with serving({"tools": [uses("pay", cents="many")]}, {"text": "Sorry."}) as server:
        shop = Shop(openai(server))
        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        assert (await session.result(1)).value == "Sorry."
        assert not shop.done


async def test_a_tool_that_raises_ends_the_turn_as_failed_in_every_attempt(world: World) -> None:
    async with serving({"tools": [uses("boom")]}) as server:
        shop = Shop(openai(server))

        @shop.agent.tool_plain
        async def boom() -> str:
            """Fail."""
            raise OSError("the shop is closed")

        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        outcome = await session.result(1)
        assert (outcome.status, "the shop is closed" in outcome.error) == ("failed", True)


async def test_what_needs_approval_waits_for_a_person_and_frees_the_worker(
    world: World, clock: ManualClock
) -> None:
    async with serving(
        {"tools": [uses("refund", cents=7), uses("pay", cents=1)]}, {"text": "Done."}
    ) as server:
        shop = Shop(openai(server))
        refunds: list[int] = []

        @shop.agent.tool_plain(requires_approval=True)
        async def refund(cents: int) -> str:
            """Refund."""
            refunds.append(cents)
            return "refunded"

        session = await opened(world, shop.durable())
        await Desk(world, clock).work(shop.durable())
        assert (await session.head()).worker is None
        assert not refunds
        (question,) = [
            one for one in await records(world) if isinstance(one, CallIntent) and one.name == "person"
        ]
        assert "refund" in str(question.arguments.value())
        await session.decide(question.call, "done", value="allow")
        await Desk(world, clock).work(shop.durable())
        assert (await session.result(1)).value == "Done."
        assert (refunds, shop.done["pay 1"]) == ([7], 1)


async def test_a_rule_asks_a_person_before_a_tool_of_theirs(world: World, clock: ManualClock) -> None:
    async with serving({"tools": [uses("pay", cents=1)]}, {"text": "Done."}) as server:
        shop = Shop(openai(server))
        agent = shop.durable(rules=[ask("pay")])
        session = await opened(world, agent)
        await Desk(world, clock).work(agent)
        assert not shop.done
        (intent,) = [
            one for one in await records(world) if isinstance(one, CallIntent) and one.kind == "tool"
        ]
        await session.decide(intent.call, "allow")
        await Desk(world, clock).work(agent)
        assert (await session.result(1)).value == "Done."


async def test_tools_and_waits_of_ours_are_offered_beside_theirs(world: World, clock: ManualClock) -> None:
    @tool(replay="safe")
    async def greet(io: ToolIO, name: str) -> str:
        """Greet."""
        return f"hello {name}"

    steps = [
        {"tools": [uses("greet", name="Ann"), uses("outlast_wait", signal="ci")]},
        {"text": "Done."},
    ]
    async with serving(*steps) as server:
        shop = Shop(openai(server))
        agent = shop.durable(tools=[greet])
        session = await opened(world, agent)
        await Desk(world, clock).work(agent)
        assert (await session.head()).worker is None
        await session.signal("ci", "green")
        await Desk(world, clock).work(agent)
        assert (await session.result(1)).value == "Done."
        said = [message["content"] for message in server.body(2)["messages"] if message["role"] == "tool"]
        assert said == ["hello Ann", "green"]


async def test_a_steer_is_a_word_of_the_user_in_the_next_request_and_all_after(world: World) -> None:
    steps: Steps = [{"tools": [uses("wink")]}, {"tools": [uses("pay", cents=1)]}, {"text": "Done."}]
    async with serving(*steps) as server:
        shop = Shop(openai(server))
        session = await opened(world, shop.durable())

        desk = Desk(world)

        @shop.agent.tool_plain
        async def wink() -> str:
            """Somebody is told something meanwhile."""
            await session.steer("be quick", id="st-1")
            # what comes behind it in the inbox is in the log, so the steer has been read
            await session.signal("read", id="signal-1")
            await until(lambda: desk.control.writer is not None and desk.control.writer.state.signals)
            return "winked"

        await desk.work(shop.durable())
        assert (await session.result(1)).status == "done"
        assert "be quick" in str(server.body(2))
        assert "be quick" in str(server.body(3))


async def test_a_provider_that_fails_for_now_is_asked_again_later(world: World, clock: ManualClock) -> None:
    async with serving({"text": "Yes.", "status": 529}) as server:
        shop = Shop(openai(server))
        session = await opened(world, shop.durable())
        await Desk(world, clock).work(shop.durable())
        assert (await session.head()).turn_open
        clock.turn(60)
        await Desk(world, clock).work(shop.durable())
        assert (await session.result(1)).value == "Yes."


@pytest.mark.parametrize(("status", "said"), [(400, "status_code: 400"), (401, "status_code: 401")])
async def test_a_refusal_ends_the_turn_as_their_own_error(world: World, status: int, said: str) -> None:
    async with serving({"text": "Yes.", "status": status, "times": "always"}) as server:
        shop = Shop(openai(server))
        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        outcome = await session.result(1)
        assert (outcome.status, said in outcome.error) == ("failed", True), outcome.error


async def test_an_agent_within_a_tool_is_journalled_in_a_lane_of_its_own(world: World) -> None:
    async with serving({"tools": [uses("research")]}, {"text": "Done."}, deep=[{"text": "Deep."}]) as server:
        shop = Shop(openai(server))
        researcher = TheirAgent(openai(server))

        @shop.agent.tool_plain(metadata={"outlast": "safe"})
        async def research() -> str:
            """Ask another agent."""
            return str((await run_agent(this_call().io, researcher, "[script:deep] dig")).output)

        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        assert (await session.result(1)).value == "Done."
        lanes = [
            one.lane for one in await records(world) if isinstance(one, CallIntent) and one.kind == "model"
        ]
        assert len(set(lanes)) == 2
