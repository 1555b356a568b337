"""A graph in a turn: killed at every point, it asks each model once and pays once."""

# LangGraph ships no marker that it is typed, and leaves parameters of its own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import operator
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import RetryPolicy, interrupt
from typing_extensions import TypedDict

from outlast.adapter import Agent
from outlast.adapters.langgraph import LangGraph, OutlastSaver, durable_model, durable_tool, node_io, steers
from outlast.clock import Clock, ManualClock
from outlast.fold import CallState
from outlast.gate import Gate
from outlast.records import CallOutcome, TurnParked
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import ToolIO
from outlast.tool import tool as outlast_tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records


class Outside:
    """A provider and a shop, which remember what was done to them."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.done: Counter[str] = Counter()


class Provider(BaseChatModel):
    """Answers by how far the conversation is."""

    outside: Any
    script: Sequence[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[one.name for one in tools])

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        said = sum(message.type == "ai" for message in messages)
        self.outside.asked[f"{messages[0].text} {said}"] += 1
        return ChatResult(generations=[ChatGeneration(message=self.script[said].model_copy())])


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]


def called(*calls: tuple[str, str, dict[str, Any]]) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": id_, "name": name, "args": args} for id_, name, args in calls])


STORY = [
    called(("id-1", "look", {"order": 1}), ("id-2", "pay", {"cents": 1})),
    called(("id-3", "pay", {"cents": 2})),
    AIMessage("paid"),
]


def clerk(outside: Outside, *, sync: bool = False) -> Agent:
    """A graph of the usual kind, with two nodes at once before it."""

    @tool
    def look(order: int) -> str:
        """Look at an order."""
        outside.done["look"] += 1
        return f"order {order}"

    @tool
    def pay(cents: int) -> str:
        """Pay."""
        outside.done["pay"] += 1
        return f"{cents} paid"

    tools = [durable_tool(look, "safe"), durable_tool(pay)]
    model = durable_model(Provider(outside=outside, script=STORY)).bind_tools(tools)
    notes = durable_model(Provider(outside=outside, script=[AIMessage("noted")]))

    def note(name: str) -> Any:
        async def take(state: State) -> dict[str, Any]:
            outside.done[f"note {name}"] += 1
            return {"notes": [f"{name} {(await notes.ainvoke(name)).text}"]}

        def take_in_a_thread(state: State) -> dict[str, Any]:
            outside.done[f"note {name}"] += 1
            return {"notes": [f"{name} {notes.invoke(name).text}"]}

        return take_in_a_thread if sync else take

    async def answer(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def answer_in_a_thread(state: State) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(State)
    builder.add_node("left", note("left"))
    builder.add_node("right", note("right"))
    builder.add_node("answer", answer_in_a_thread if sync else answer)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "left")
    builder.add_edge(START, "right")
    builder.add_edge(["left", "right"], "answer")
    builder.add_conditional_edges("answer", tools_condition)
    builder.add_edge("tools", "answer")
    graph = builder.compile()
    return Agent(
        "tester",
        LangGraph(
            graph, tools=tools, result=lambda state: [str(state["messages"][-1].text), *state["notes"]]
        ),
    )


async def life(
    world: World, clock: Clock, agent: Agent, name: str, *, death: Spot | None = None, dead: str = ""
) -> RecordingGate:
    """One worker, to its death or until nothing is left to do."""
    mortal, record = MortalWorld(world), RecordingGate()
    gate: Gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, clock, gate, name, frozenset({dead})).work(agent)
    return record


async def _deaths(clock: Clock) -> list[Spot]:
    """Every place where a worker may die."""
    async with open_memory(MemoryStore(clock)) as world:
        session = await opened(world, clerk(Outside()))
        where = spots((await life(world, clock, clerk(Outside()), "w-1")).crossings)
        assert (await session.result(1)).value == ["paid", "left noted", "right noted"]
    assert len(where) > 30
    return where


async def test_a_graph_killed_somewhere_pays_and_asks_once(clock: ManualClock, seed: int) -> None:
    where = random.Random(seed).sample(await _deaths(clock), 6)
    await _hold(clock, where, sync=False)


@pytest.mark.crash
@pytest.mark.timeout(240)
@pytest.mark.parametrize("sync", [False, True], ids=["coroutines", "functions"])
async def test_a_graph_killed_at_every_point_pays_and_asks_once(clock: ManualClock, *, sync: bool) -> None:
    await _hold(clock, await _deaths(clock), sync=sync)


async def _hold(clock: Clock, where: Sequence[Spot], *, sync: bool) -> None:
    for spot in where:
        async with open_memory(MemoryStore(clock)) as world:
            outside = Outside()
            session = await opened(world, clerk(outside, sync=sync))
            await life(world, clock, clerk(outside, sync=sync), "w-1", death=spot)
            await life(world, clock, clerk(outside, sync=sync), "w-2", dead="w-1")
            outcome = await session.result(1)
            assert outcome.status == "done", f"{spot}: {outcome.error}"
            assert outcome.value == ["paid", "left noted", "right noted"], str(spot)
            assert outside.done["pay"] <= 2, str(spot)
            log = await records(world)
            finished = Counter(one.call for one in log if isinstance(one, CallOutcome))
            assert set(finished.values()) == {1}, str(spot)
            assert sum(outside.asked.values()) <= 7, str(spot)  # two nodes ask at once
            assert not [one for one in log if isinstance(one, TurnParked)], str(spot)


class Form(TypedDict):
    text: str
    said: Annotated[list[str], operator.add]


def _form(prompt: str) -> Any:
    return {"text": prompt, "said": []}


def _said(state: Any) -> object:
    return state["said"]


def asking(outside: Outside) -> Agent:
    """Two nodes that ask a person, one of them twice; each asks its model before and after."""
    model = durable_model(Provider(outside=outside, script=[AIMessage("hm")]))

    async def twice(state: Form) -> dict[str, Any]:
        await model.ainvoke("before")
        name = interrupt("who?")
        age = interrupt({"about": name})
        await model.ainvoke(f"after {name} {age}")
        return {"said": [f"{name} is {age}"]}

    async def once(state: Form) -> dict[str, Any]:
        came = interrupt({"signal": "paid"})
        outside.done["told"] += 1
        return {"said": [f"came {came}"]}

    builder = StateGraph(Form)
    builder.add_node("twice", twice)
    builder.add_node("once", once)
    builder.add_edge(START, "twice")
    builder.add_edge(START, "once")
    builder.add_edge("once", END)
    graph = builder.compile()
    return Agent("tester", LangGraph(graph, read=_form, result=_said))


async def test_an_interrupt_waits_while_no_process_holds_the_turn(world: World, clock: ManualClock) -> None:
    outside = Outside()
    session = await opened(world, asking(outside))
    await Desk(world, clock, name="w-1").work(asking(outside))
    head = await session.head()
    assert (head.worker, head.turn_open) == (None, True)
    await session.signal("paid", 7)
    for place, value in enumerate(["Ann", 40]):
        waits = [call for call in await _open_calls(session) if "person" in call.intent.name]
        await session.decide(waits[0].intent.call, "done", value)
        await Desk(world, clock, name=f"w-{place + 2}").work(asking(outside))
    outcome = await session.result(1)
    assert (outcome.status, outcome.value) == ("done", ["came 7", "Ann is 40"]), outcome.error
    assert outside.asked == {"before 0": 1, "after Ann 40 0": 1}


async def test_what_one_interrupt_waited_for_is_acted_on_while_another_waits(
    world: World, clock: ManualClock
) -> None:
    outside = Outside()
    session = await opened(world, asking(outside))
    await Desk(world, clock, name="w-1").work(asking(outside))
    await session.signal("paid", 7)
    await Desk(world, clock, name="w-2").work(asking(outside))
    head = await session.head()
    assert (outside.done["told"], head.worker, head.turn_open) == (1, None, True)
    (left,) = await _open_calls(session)
    assert "person" in left.intent.name
    for place, value in enumerate(["Ann", 40]):
        (left,) = await _open_calls(session)
        await session.decide(left.intent.call, "done", value)
        await Desk(world, clock, name=f"w-{place + 3}").work(asking(outside))
    outcome = await session.result(1)
    assert (outcome.status, outcome.value) == ("done", ["came 7", "Ann is 40"]), outcome.error
    assert outside.done["told"] == 1


async def test_a_steer_is_put_into_the_state_by_the_node_that_asks_with_it(
    world: World, clock: ManualClock
) -> None:
    outside = Outside()
    model = durable_model(Provider(outside=outside, script=[AIMessage("one"), AIMessage("two")]))
    session: list[Session] = []

    async def first(state: State) -> dict[str, Any]:
        said = await model.ainvoke(state["messages"])
        await session[0].steer("hurry")
        return {"messages": [said]}

    async def second(state: State) -> dict[str, Any]:
        told = [HumanMessage(text) for text in await steers()]
        return {"messages": [*told, await model.ainvoke([*state["messages"], *told])]}

    builder = StateGraph(State)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    graph = LangGraph(builder.compile(), result=lambda state: [str(one.text) for one in state["messages"]])
    agent = Agent("tester", graph)
    session.append(await opened(world, agent))
    await Desk(world, clock).work(agent)
    assert (await session[0].result(1)).value == ["go", "one", "hurry", "two"]
    assert await steers() == (), "outside a turn there is nothing"


async def _open_calls(session: Session) -> list[CallState]:
    state = await session.state()
    assert state.turn is not None
    return list(state.turn.open_calls())


async def test_the_next_turn_goes_on_with_the_thread_and_everybody_can_look_at_it(
    world: World, clock: ManualClock
) -> None:
    outside = Outside()
    session = await opened(world, clerk(outside))
    await session.send("again", id="in-2")
    await Desk(world, clock).work(clerk(outside))
    assert (
        await session.result(2)
    ).status == "failed"  # its script is over: the model was told of the first turn
    found = await OutlastSaver(world).aget_tuple({"configurable": {"thread_id": session.id}})
    assert found is not None
    texts = [str(one.text) for one in found.checkpoint["channel_values"]["messages"] if one.type == "human"]
    assert texts == ["go", "again"]


async def test_a_node_that_is_tried_again_reads_what_it_had_asked(world: World, clock: ManualClock) -> None:
    outside = Outside()
    model = durable_model(Provider(outside=outside, script=[AIMessage("hm")]))

    async def shaky(state: Form) -> dict[str, Any]:
        await model.ainvoke("first")
        outside.done["tries"] += 1
        if outside.done["tries"] < 3:
            raise ConnectionError("gone")
        return {"said": ["well"]}

    builder = StateGraph(Form)
    builder.add_node("shaky", shaky, retry_policy=RetryPolicy(initial_interval=0.001, max_attempts=5))
    builder.add_edge(START, "shaky")
    agent = Agent("tester", LangGraph(builder.compile(), read=_form, result=_said))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == ["well"]
    assert outside.asked == {"first 0": 1}


async def test_a_tool_of_the_agents_is_run_by_a_model_and_by_a_node(world: World, clock: ManualClock) -> None:
    done: list[str] = []

    @outlast_tool(replay="keyed")
    async def ship(io: ToolIO, order: int) -> str:
        """Ship an order."""
        done.append(io.key)
        return f"{order} shipped"

    offered = durable_tool(ship)
    script = [called(("id-1", "ship", {"order": 1})), AIMessage("done")]
    model = durable_model(Provider(outside=Outside(), script=script)).bind_tools([offered])

    async def answer(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def last(state: State) -> dict[str, Any]:
        return {"notes": [await node_io(lambda io: io.tool(ship, order=2))]}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("tools", ToolNode([offered]))
    builder.add_node("last", last)
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", tools_condition, {"tools": "tools", END: "last"})
    builder.add_edge("tools", "answer")
    graph = LangGraph(builder.compile(), tools=[offered], result=_told)
    agent = Agent("tester", graph, tools=[ship])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    outcome = await session.result(1)
    assert outcome.value == ["1 shipped", "2 shipped"], outcome.error
    assert len(set(done)) == 2


def _told(state: Any) -> object:
    return [*(str(one.text) for one in state["messages"] if isinstance(one, ToolMessage)), *state["notes"]]


async def test_outside_a_turn_all_is_as_it_was() -> None:
    outside = Outside()
    model = durable_model(Provider(outside=outside, script=[AIMessage("hm")]))
    assert str((await model.ainvoke("x")).text) == "hm"

    @tool
    def pay(cents: int) -> str:
        """Pay."""
        return f"{cents} paid"

    assert await durable_tool(pay).ainvoke({"cents": 3}) == "3 paid"
