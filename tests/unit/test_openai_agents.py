"""Agents of the OpenAI Agents SDK, as they are: its real models against the scripted server, killed at every point."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from agents import (
    Agent as TheirAgent,
)
from agents import (
    GuardrailFunctionOutput,
    InputGuardrail,
    LocalShellTool,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    function_tool,
    handoff,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

from outlast.adapter import Agent
from outlast.adapters.foreign import this_call
from outlast.adapters.openai_agents import OpenAIAgents, run_agent
from outlast.clock import Clock, ManualClock, SystemClock
from outlast.gate import Gate
from outlast.records import CallIntent, CallOutcome, TurnParked
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
    clients: list[AsyncOpenAI] = field(default_factory=list[AsyncOpenAI])

    @property
    def asked(self) -> int:
        """How many requests came."""
        return len(self.server.requests)

    def client(self) -> AsyncOpenAI:
        """Another client."""
        self.clients.append(AsyncOpenAI(api_key="k", base_url=f"{self.server.base_url}/v1", max_retries=0))
        return self.clients[-1]

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


def chat(provider: Provider) -> Model:
    return OpenAIChatCompletionsModel("gpt-5.5", provider.client())


def responses(provider: Provider) -> Model:
    return OpenAIResponsesModel("gpt-5.5", provider.client())


class Shop:
    """What is outside, and an agent that knows nothing of us."""

    def __init__(self, model: Model, **more: Any) -> None:
        self.done: Counter[str] = Counter()

        @function_tool
        async def pay(cents: int) -> str:
            """Pay once."""
            self.done[f"pay {cents}"] += 1
            return f"paid {cents}"

        @function_tool
        async def look(at: str) -> dict[str, Any]:
            """Look at something."""
            self.done["look"] += 1
            return {"at": at, "seen": [1, 2.5, None]}

        extra = more.pop("tools", [])
        self.agent: TheirAgent[Any] = TheirAgent(
            "clerk", instructions="Be brief.", model=model, tools=[pay, look, *extra], **more
        )

    def durable(self, **more: Any) -> Agent:
        tools = more.pop("tools", ())
        policies: Any = {"look": "safe", **more.pop("policies", {})}
        return Agent("tester", OpenAIAgents(self.agent, policies=policies, **more), tools=tools)


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


@pytest.mark.parametrize("model", [chat, responses])
async def test_an_agent_as_it_is_carries_a_turn(world: World, model: Any) -> None:
    async with serving(*STORY) as server:
        shop = Shop(model(server))
        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        outcome = await session.result(1)
        assert (outcome.status, outcome.value) == ("done", "All paid."), outcome.error
        assert shop.done == {"look": 1, "pay 1": 1, "pay 2": 1}
        log = await records(world)
        intents = [(one.kind, one.name, one.policy) for one in log if isinstance(one, CallIntent)]
        assert intents == [
            ("model", "gpt-5.5", "safe"),
            ("tool", "look", "safe"),
            ("tool", "pay", "never"),
            ("model", "gpt-5.5", "safe"),
            ("tool", "pay", "never"),
            ("model", "gpt-5.5", "safe"),
        ]
        usages = [one.usage for one in log if isinstance(one, CallOutcome) and one.usage]
        assert len(usages) == 3
        assert all(usage.input_tokens and usage.output_tokens and usage.cost_usd for usage in usages)


@pytest.mark.crash
async def test_an_agent_killed_at_every_point_asks_and_pays_once() -> None:
    clock = SystemClock()
    async with open_memory(MemoryStore(clock)) as world, serving(*STORY) as server:
        agent = Shop(chat(server)).durable()
        await opened(world, agent)
        where = spots((await life(world, clock, agent, "w-1")).crossings)
    assert len(where) > 30
    for spot in where:
        async with open_memory(MemoryStore(clock)) as world, serving(*STORY) as server:
            shop = Shop(chat(server))
            session = await opened(world, shop.durable())
            await life(world, clock, shop.durable(), "w-1", death=spot)
            await life(world, clock, shop.durable(), "w-2", dead="w-1")
            log = await records(world)
            parked = [one for one in log if isinstance(one, TurnParked)]
            assert not parked, f"{spot}: {parked}"
            outcome = await session.result(1)
            assert outcome.value == "All paid.", f"{spot}: {outcome.error}"
            assert max([count for name, count in shop.done.items() if "pay" in name], default=0) <= 1, str(
                spot
            )
            finished = Counter(one.call for one in log if isinstance(one, CallOutcome) and one.usage)
            assert sorted(finished.values()) == [1, 1, 1], str(spot)
            assert server.asked <= 4, str(spot)


async def test_the_turns_of_a_session_are_one_conversation(world: World) -> None:
    async with serving({"tools": [uses("pay", cents=1)]}, {"text": "Paid."}, {"text": "One."}) as server:
        shop = Shop(chat(server))
        session = await opened(world, shop.durable(), "s-1", "pay one", "how many?")
        await Desk(world).work(shop.durable())
        assert (await session.result(2)).value == "One."
        roles = [message["role"] for message in server.body(3)["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


class Receipt(BaseModel):
    cents: int


async def test_an_answer_of_a_type_is_the_result(world: World) -> None:
    async with serving({"text": '{"cents": 81}'}) as server:
        shop = Shop(chat(server), output_type=Receipt)
        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        assert (await session.result(1)).value == {"cents": 81}


@pytest.mark.parametrize("by", ["agent", "handoff"])
async def test_an_agent_that_is_handed_over_to_is_as_durable(by: str) -> None:
    steps: Steps = [
        {"tools": [uses("transfer_to_billing")]},
        {"tools": [uses("charge")]},
        {"text": "Charged."},
    ]
    clock = SystemClock()

    def agent_of(server: Provider, charged: list[int]) -> Agent:
        @function_tool
        async def charge() -> str:
            """Charge."""
            charged.append(1)
            return "charged"

        billing: TheirAgent[Any] = TheirAgent("billing", model=chat(server), tools=[charge])
        front = TheirAgent[Any](
            "front", model=chat(server), handoffs=[billing if by == "agent" else handoff(billing)]
        )
        billing.handoffs.append(front)
        return Agent("tester", OpenAIAgents(front))

    async with open_memory(MemoryStore(clock)) as world, serving(*steps) as server:
        charged: list[int] = []
        await opened(world, agent_of(server, charged))
        where = spots((await life(world, clock, agent_of(server, charged), "w-1")).crossings)
        assert charged == [1]
    for spot in [one for one in where if one.point in {"after-outcome", "before-settle"}]:
        async with open_memory(MemoryStore(clock)) as world, serving(*steps) as server:
            charged = []
            session = await opened(world, agent_of(server, charged))
            await life(world, clock, agent_of(server, charged), "w-1", death=spot)
            await life(world, clock, agent_of(server, charged), "w-2", dead="w-1")
            assert (await session.result(1)).value == "Charged.", str(spot)
            assert charged == [1], str(spot)


async def test_a_guardrail_is_asked_once_whatever_dies(world: World) -> None:
    checked: list[str] = []

    async def check(
        context: RunContextWrapper[Any], agent: TheirAgent[Any], asked: Any
    ) -> GuardrailFunctionOutput:
        checked.append("in")
        return GuardrailFunctionOutput({"fine": True}, tripwire_triggered=False)

    clock = SystemClock()
    async with serving(*STORY) as server:
        rails = [InputGuardrail(check)]
        shop = Shop(chat(server), input_guardrails=rails)
        where = spots((await _lived(world, clock, shop)).crossings)
        assert checked == ["in"]
    (death,) = [spot for spot in where if spot.point == "before-settle"]
    async with open_memory(MemoryStore(clock)) as other, serving(*STORY) as server:
        checked.clear()
        shop = Shop(chat(server), input_guardrails=rails)
        session = await opened(other, shop.durable())
        await life(other, clock, shop.durable(), "w-1", death=death)
        await life(other, clock, shop.durable(), "w-2", dead="w-1")
        assert (await session.result(1)).value == "All paid."
        assert checked == ["in"]


async def _lived(world: World, clock: Clock, shop: Shop) -> RecordingGate:
    await opened(world, shop.durable())
    return await life(world, clock, shop.durable(), "w-1")


async def test_what_needs_approval_waits_for_a_person_and_frees_the_worker(
    world: World, clock: ManualClock
) -> None:
    refunds: list[int] = []

    @function_tool(needs_approval=True)
    async def refund(cents: int) -> str:
        """Refund."""
        refunds.append(cents)
        return "refunded"

    steps: Steps = [{"tools": [uses("refund", cents=7), uses("pay", cents=1)]}, {"text": "Done."}]
    async with serving(*steps) as server:
        shop = Shop(chat(server), tools=[refund])
        session = await opened(world, shop.durable())
        await Desk(world, clock).work(shop.durable())
        assert (await session.head()).worker is None
        assert not refunds
        (asked,) = [
            one for one in await records(world) if isinstance(one, CallIntent) and one.name == "person"
        ]
        assert "refund" in str(asked.arguments.value())
        await session.decide(asked.call, "done", value="allow")
        await Desk(world, clock).work(shop.durable())
        outcome = await session.result(1)
        assert outcome.value == "Done.", outcome.error
        assert (refunds, shop.done["pay 1"]) == ([7], 1)


async def test_tools_and_waits_of_ours_are_offered_beside_theirs(world: World, clock: ManualClock) -> None:
    @tool(replay="safe")
    async def greet(io: ToolIO, name: str) -> str:
        """Greet."""
        return f"hello {name}"

    steps: Steps = [
        {"tools": [uses("greet", name="Ann"), uses("outlast_wait", signal="ci")]},
        {"text": "Done."},
    ]
    async with serving(*steps) as server:
        shop = Shop(chat(server))
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
        desk = Desk(world)

        @function_tool
        async def wink() -> str:
            """Somebody is told something meanwhile."""
            await session.steer("be quick", id="st-1")
            # what comes behind it in the inbox is in the log, so the steer has been read
            await session.signal("read", id="signal-1")
            await until(lambda: desk.control.writer is not None and desk.control.writer.state.signals)
            return "winked"

        shop = Shop(chat(server), tools=[wink])
        session = await opened(world, shop.durable())
        await desk.work(shop.durable())
        assert (await session.result(1)).status == "done"
        assert "be quick" in str(server.body(2))
        assert "be quick" in str(server.body(3))


async def test_a_provider_that_fails_for_now_is_asked_again_later(world: World, clock: ManualClock) -> None:
    async with serving({"text": "Yes.", "status": 529}) as server:
        shop = Shop(chat(server))
        session = await opened(world, shop.durable())
        await Desk(world, clock).work(shop.durable())
        assert (await session.head()).turn_open
        clock.turn(60)
        await Desk(world, clock).work(shop.durable())
        assert (await session.result(1)).value == "Yes."


async def test_a_refusal_ends_the_turn(world: World) -> None:
    async with serving({"text": "Yes.", "status": 401, "times": "always"}) as server:
        shop = Shop(chat(server))
        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        outcome = await session.result(1)
        assert (outcome.status, "401" in outcome.error) == ("failed", True), outcome.error


async def test_models_by_name_come_from_the_provider_of_the_run(world: World) -> None:
    async with serving({"text": "Yes."}) as server:
        config = RunConfig(
            tracing_disabled=True,
            model_provider=OpenAIProvider(openai_client=server.client(), use_responses=False),
        )
        agent = Agent(
            "tester", OpenAIAgents(TheirAgent("plain", model="gpt-5.5"), more={"run_config": config})
        )
        session = await opened(world, agent)
        await Desk(world).work(agent)
        assert (await session.result(1)).value == "Yes."
        assert [one.name for one in await records(world) if isinstance(one, CallIntent)] == ["gpt-5.5"]


async def test_an_agent_within_a_tool_is_journalled_in_a_lane_of_its_own(world: World) -> None:
    async with serving({"tools": [uses("research")]}, {"text": "Done."}, deep=[{"text": "Deep."}]) as server:
        researcher: TheirAgent[Any] = TheirAgent("researcher", model=chat(server))

        @function_tool
        async def research() -> str:
            """Ask another agent."""
            return str((await run_agent(this_call().io, researcher, "[script:deep] dig")).final_output)

        shop = Shop(chat(server), tools=[research])
        agent = shop.durable(policies={"research": "safe"})
        session = await opened(world, agent)
        await Desk(world).work(agent)
        assert (await session.result(1)).value == "Done."
        lanes = [
            one.lane for one in await records(world) if isinstance(one, CallIntent) and one.kind == "model"
        ]
        assert len(set(lanes)) == 2


async def test_a_tool_that_acts_here_unseen_is_refused(world: World) -> None:
    async with serving({"text": "Yes."}) as server:
        shop = Shop(chat(server), tools=[LocalShellTool(executor=lambda _: "")])
        session = await opened(world, shop.durable())
        await Desk(world).work(shop.durable())
        assert "LocalShellTool" in (await session.result(1)).error
