"""The ready-made agent loop: what it asks, what it runs, and what it still knows in the next turn."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from outlast.adapter import Agent
from outlast.adapters.assistant import GO_ON, SUMMARISE, Assistant
from outlast.adapters.history import NOT_KNOWN
from outlast.clock import ManualClock
from outlast.errors import BadInput, ModelCallRejected
from outlast.gate import Gate, Point
from outlast.model import Request, ToolCallPart, ToolMessage, UserMessage
from outlast.records import CallIntent, CallOutcome, SteerTaken, TurnParked
from outlast.recovery import IN_DOUBT
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Tool, ToolFailed, ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened, records, until
from tests.unit.listed_model import TOO_LONG, Listed, Step, says, texts, wants, words


class Shop:
    """What is outside."""

    def __init__(self) -> None:
        self.paid: Counter[int] = Counter()

    def tools(self) -> list[Tool]:
        async def pay(io: ToolIO, cents: int) -> str:
            """Pay once."""
            self.paid[cents] += 1
            return f"paid {cents}"

        async def refuse(io: ToolIO) -> str:
            """Refuse."""
            raise ToolFailed("no")

        async def look(io: ToolIO, at: str) -> dict[str, str]:
            """Look at something."""
            return {"at": at}

        return [tool(pay), tool(replay="safe")(refuse), tool(replay="safe")(look)]


def agent_of(model: Listed, shop: Shop | None = None, **more: Any) -> Agent:
    return Agent("tester", Assistant(model, "Be brief.", **more), tools=(shop or Shop()).tools())


async def told(world: World, clock: ManualClock, model: Listed, *prompts: str, **more: Any) -> Sequence[str]:
    """The results of one turn for each prompt, all in one session."""
    agent = agent_of(model, **more)
    session = await opened(world, agent, "s-1", *prompts)
    await Desk(world, clock).work(agent)
    outcomes = [await session.result(turn) for turn in range(1, len(prompts) + 1)]
    return [str(outcome) for outcome in outcomes]


def results(request: Request) -> Sequence[tuple[str, bool]]:
    """The results in the last message of a request that brings some."""
    last = [message for message in request.messages if isinstance(message, ToolMessage)][-1]
    return [("".join(words(result.parts)), result.is_error) for result in last.results]


async def test_a_turn_ends_with_the_first_answer_that_calls_no_tool(world: World, clock: ManualClock) -> None:
    model = Listed(says("I pay.", wants("pay", cents=1)), says("Paid."))
    assert await told(world, clock, model, "Pay one cent") == ["Paid."]
    first, second = model.requests
    assert (first.system, first.model) == ("Be brief.", "listed")
    assert [spec.name for spec in first.tools] == ["pay", "refuse", "look"]
    assert texts(second) == ["Pay one cent", "I pay.", "paid 1"]


async def test_every_call_of_an_answer_gets_a_result_in_order(world: World, clock: ManualClock) -> None:
    unreadable = ToolCallPart("id-half", "pay", {}, unreadable='{"cents": 1')
    asked = [
        wants("look", at="a"),
        unreadable,
        wants("refuse"),
        wants("fly"),
        wants("pay", cents="x"),
        wants("pay", cents=2),
    ]
    model = Listed(says("", *asked), says("Done."))
    assert await told(world, clock, model, "go") == ["Done."]
    last = model.requests[1].messages[-1]
    assert isinstance(last, ToolMessage)
    assert [result.call_id for result in last.results] == [call.id for call in asked]
    look, half, refuse, fly, wrong, pay = results(model.requests[1])
    assert (look, refuse, pay) == (('{"at":"a"}', False), ("no", True), ("paid 2", False))
    assert half[1]
    assert "no JSON object" in half[0]
    assert fly == ("There is no tool 'fly' in this worker.", True)
    assert wrong[1]
    assert "do not fit pay" in wrong[0]


async def test_tool_calls_of_one_answer_run_at_once(world: World, clock: ManualClock) -> None:
    both = asyncio.Event()
    here: list[str] = []

    async def meet(io: ToolIO, name: str) -> str:
        """Wait for the other."""
        here.append(name)
        if len(here) == 2:
            both.set()
        await both.wait()
        return name

    model = Listed(says("", wants("meet", name="a"), wants("meet", name="b")), says("Met."))
    agent = Agent("tester", Assistant(model), tools=[tool(meet)])
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert str(await session.result(1)) == "Met."
    assert results(model.requests[1]) == [("a", False), ("b", False)]


async def test_the_turns_of_a_session_are_one_conversation(world: World, clock: ManualClock) -> None:
    model = Listed(says("", wants("look", at="x")), says("Seen."), says("Again: x."))
    assert await told(world, clock, model, "Look at x", "At what?") == ["Seen.", "Again: x."]
    assert texts(model.requests[2]) == ["Look at x", "", '{"at":"x"}', "Seen.", "At what?"]


async def test_another_worker_goes_on_with_the_conversation_of_a_snapshot(
    world: World, clock: ManualClock
) -> None:
    count = 75
    first = Listed(*(says(f"answer {turn}") for turn in range(count)))
    await told(world, clock, first, *(f"prompt {turn}" for turn in range(count)))
    head = await world.get("s-1")
    assert head.snapshot_seq
    model = Listed(says("the last"))
    session = await opened(world, agent_of(model), "s-1", "prompt 0")
    await session.send("and now?", id="last")
    await Desk(world, clock, name="another").work(agent_of(model))
    said = texts(model.requests[0])
    assert len(said) == 2 * count + 1
    assert list(said[-3:]) == [f"prompt {count - 1}", f"answer {count - 1}", "and now?"]


async def test_a_turn_costs_its_new_text_however_long_the_conversation(
    world: World, clock: ManualClock
) -> None:
    count = 60
    model = Listed(*(says(f"{turn} " * 200) for turn in range(count)))
    await told(world, clock, model, *(f"prompt {turn}" for turn in range(count)))
    commits = await world.commits("s-1")
    new = [sum(map(len, commit.blobs.values())) + len(commit.body) for commit in commits]
    half = len(new) // 2
    assert sum(new[half:]) < 1.5 * sum(new[:half])


async def test_a_turn_that_was_cut_short_leaves_a_conversation_that_can_go_on(
    world: World, clock: ManualClock
) -> None:
    begun = asyncio.Event()

    async def hang(io: ToolIO) -> str:
        """Never end."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    model = Listed(
        says("", wants("pay", cents=1), wants("hang"), wants("pay", id="again", cents=1)), says("I see.")
    )
    shop = Shop()
    agent = Agent("tester", Assistant(model), tools=[*shop.tools(), tool(hang)])
    session = await opened(world, agent)
    desk = Desk(world, clock)
    async with desk.working(agent) as working:
        await begun.wait()
        await session.cancel()
        await session.send("What now?", id="in-2")
        await working
    assert (await session.result(1)).status == "cancelled"
    assert str(await session.result(2)) == "I see."
    last = model.requests[1].messages
    assert isinstance(last[-1], UserMessage)
    assert isinstance(last[-2], ToolMessage)
    paid, hung, again = results(model.requests[1])
    assert (paid, again) == (("paid 1", False), ("paid 1", False))
    assert hung[1]
    assert "may have taken effect" in hung[0]


async def test_a_prompt_that_the_provider_refuses_fails_its_turn_and_does_not_spoil_the_next(
    world: World, clock: ManualClock
) -> None:
    model = Listed(says("Hello."), ModelCallRejected(status=400, reason="bad words."), says("Welcome back."))
    hello, refused, back = await told(world, clock, model, "Hi", "bad words", "Hi again")
    assert (hello, back) == ("Hello.", "Welcome back.")
    assert "bad words." in refused
    assert texts(model.requests[2]) == ["Hi", "Hello.", "Hi again"]


async def test_a_steer_reaches_the_next_model_call_once(world: World, clock: ManualClock) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(io: ToolIO) -> str:
        """Wait."""
        begun.set()
        await go_on.wait()
        return "waited"

    model = Listed(says("", wants("wait")), says("", wants("look", at="x")), says("Blue."))
    agent = Agent("tester", Assistant(model), tools=[*Shop().tools(), tool(replay="safe")(wait)])
    session = await opened(world, agent)
    desk = Desk(world, clock)
    async with desk.working(agent) as working:
        await begun.wait()
        await session.steer("Make it blue", id="steer-1")
        # what comes behind it in the inbox is in the log, so the steer has been read
        await session.signal("read", id="signal-1")
        await until(lambda: desk.control.writer is not None and desk.control.writer.state.signals)
        go_on.set()
        await working
    assert str(await session.result(1)) == "Blue."
    assert texts(model.requests[1]) == ["go", "", "waited", "Make it blue"]
    assert texts(model.requests[2]) == ["go", "", "waited", "Make it blue", "", '{"at":"x"}']
    (taken,) = [record for record in await records(world) if isinstance(record, SteerTaken)]
    assert taken.input == "steer-1"


class Verdict(msgspec.Struct):
    good: bool


async def test_an_answer_of_a_type_is_asked_for_until_it_fits(world: World, clock: ManualClock) -> None:
    model = Listed(says("", wants("look", at="x")), says("It is good."), says('{"good": true}'))
    agent = agent_of(model, output=Verdict)
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).value == {"good": True}
    assert all(request.output is not None for request in model.requests)
    assert "cannot be used" in texts(model.requests[2])[-1]


async def test_an_answer_that_never_fits_fails_the_turn(world: World, clock: ManualClock) -> None:
    model = Listed(says("a"), says("b"), says("c"))
    (outcome,) = await told(world, clock, model, "go", output=list[int])
    assert outcome.startswith("failed: The model's answer is no list")


async def test_an_answer_cut_at_its_most_tokens_is_gone_on_with(world: World, clock: ManualClock) -> None:
    model = Listed(says("One, two", stop="length"), says("", stop="pause"), says(", three."))
    assert await told(world, clock, model, "Count") == ["One, two, three."]
    assert texts(model.requests[1]) == ["Count", "One, two", GO_ON]


async def test_a_model_that_declines_fails_the_turn(world: World, clock: ManualClock) -> None:
    (outcome,) = await told(world, clock, Listed(says("I won't.", stop="refusal")), "go")
    assert outcome == "failed: The model's answer is no result: the model declined. It said: I won't."


async def test_a_turn_that_asks_too_often_ends_and_the_next_goes_on(world: World, clock: ManualClock) -> None:
    model = Listed(*(says("", wants("look", at=str(at))) for at in range(3)), says("Enough."))
    failed, enough = await told(world, clock, model, "go", "Stop now", max_calls=3)
    assert failed.startswith("failed: The turn has asked its model 3 times")
    assert enough == "Enough."
    assert texts(model.requests[3])[-2:] == ['{"at":"2"}', "Stop now"]


def calls_for(count: int, tokens: int) -> list[Step]:
    return [says(f"look {at}", wants("look", at="y" * 40), tokens=tokens * (at + 1)) for at in range(count)]


def is_summary(request: Request) -> bool:
    return texts(request)[-1] == SUMMARISE


async def test_a_context_that_fills_is_summed_up_and_the_turn_goes_on(
    world: World, clock: ManualClock
) -> None:
    model = Listed(*calls_for(8, 100), says("NOTES"), says("Done."), says("Known."), context_tokens=1000)
    assert await told(world, clock, model, "Look around", "And then?") == ["Done.", "Known."]
    summary, after, following = model.requests[-3:]
    assert is_summary(summary)
    assert (summary.tool_choice, summary.tools) == ("none", model.requests[0].tools)
    assert "NOTES" in texts(after)[0]
    assert 1 < len(after.messages) < len(summary.messages)
    assert not isinstance(after.messages[1], ToolMessage)
    assert isinstance(after.messages[-1], ToolMessage)
    assert texts(following)[-2:] == ["Done.", "And then?"]
    assert texts(following)[:-2] == texts(after)


async def test_a_prompt_too_long_is_summed_up_in_halves_where_it_must_be(
    world: World, clock: ManualClock
) -> None:
    def too_long_beyond(count: int, text: str) -> Step:
        return lambda request: TOO_LONG if len(request.messages) > count else says(text)

    steps = [too_long_beyond(9, "first"), too_long_beyond(9, "x"), too_long_beyond(9, "NOTES"), says("Done.")]
    model = Listed(*calls_for(5, 0), *steps)
    assert await told(world, clock, model, "Look around") == ["Done."]
    refused, whole, half, _ = model.requests[-4:]
    assert not is_summary(refused)
    assert is_summary(whole)
    assert is_summary(half)
    assert len(half.messages) < len(whole.messages)


async def test_a_prompt_that_is_too_long_by_itself_fails_its_turn(world: World, clock: ManualClock) -> None:
    (outcome,) = await told(world, clock, Listed(TOO_LONG), "much too long")
    assert "does not fit into the context" in outcome


async def test_an_answer_cut_by_a_full_context_is_asked_for_again(world: World, clock: ManualClock) -> None:
    model = Listed(*calls_for(3, 0), says("I was ab", stop="context"), says("NOTES"), says("Done."))
    assert await told(world, clock, model, "go") == ["Done."]
    assert "I was ab" not in str(model.requests[-1])


async def life(
    world: World,
    clock: ManualClock,
    agent: Agent,
    name: str,
    *,
    death: Spot | None = None,
    dead: frozenset[str] = frozenset(),
) -> RecordingGate:
    mortal, record = MortalWorld(world), RecordingGate()
    gate: Gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, clock, gate, name, dead).work(agent)
    return record


class Provider:
    """Answers by what was asked, and counts: whoever asks for the same answer twice after it had it, pays twice."""

    name = provider = "listed"
    context_tokens = 600

    def __init__(self) -> None:
        self.asked: Counter[bytes] = Counter()

    def versions(self) -> dict[str, str]:
        return {}

    async def ask(self, request: Request, show: Any = None) -> Any:
        self.asked[msgspec.json.encode(request)] += 1
        turn_two = any("again" in text for text in texts(request))
        count = sum(isinstance(message, ToolMessage) for message in request.messages)
        if is_summary(request):
            return says("NOTES: paid", tokens=10)
        if "NOTES" in str(request.messages[0]):
            return says("Summed up." if not turn_two else "Again summed up.", tokens=100)
        if count < 4:
            return says(
                "", wants("pay", cents=count), wants("look", at=f"{count} " * 30), tokens=250 * (count + 1)
            )
        return says("not reached")


@pytest.mark.crash
async def test_an_assistant_killed_at_every_point_pays_no_answer_twice_and_tells_what_is_in_doubt(
    clock: ManualClock,
) -> None:
    async with open_memory(MemoryStore(clock)) as world:
        agent = Agent("tester", Assistant(Provider()), tools=Shop().tools())
        session = await opened(world, agent, "s-1", "go", "again")
        where = spots((await life(world, clock, agent, "w-1")).crossings)
        assert [str(await session.result(turn)) for turn in (1, 2)] == ["Summed up.", "Again summed up."]
    assert len(where) > 60
    for spot in where:
        async with open_memory(MemoryStore(clock)) as world:
            shop, provider = Shop(), Provider()
            agent = Agent("tester", Assistant(provider), tools=shop.tools())
            session = await opened(world, agent, "s-1", "go", "again")
            await life(world, clock, agent, "w-1", death=spot)
            await life(world, clock, agent, "w-2", dead=frozenset({"w-1"}))
            ended = [str(await session.result(turn)) for turn in (1, 2)]
            assert ended == ["Summed up.", "Again summed up."], str(spot)
            assert max(shop.paid.values(), default=0) <= 1, str(spot)
            logged = await records(world)
            assert not [record for record in logged if isinstance(record, TurnParked)], str(spot)
            doubts = [
                record for record in logged if isinstance(record, CallOutcome) and record.status == "in_doubt"
            ]
            assert len(doubts) <= 1
            # One request may have been under way when the worker died; what was answered is not asked for again.
            assert sum(count - 1 for count in provider.asked.values()) <= 1, str(spot)
            intents = [
                record for record in logged if isinstance(record, CallIntent) and record.kind == "model"
            ]
            assert len({intent.match for intent in intents}) == len(intents), str(spot)


async def test_what_is_in_doubt_is_told_to_the_model(world: World, clock: ManualClock) -> None:
    shop = Shop()
    model = Listed(says("", wants("pay", cents=1)), says("I shall check."))
    agent = agent_of(model, shop)
    session = await opened(world, agent)
    await life(world, clock, agent, "w-1", death=Spot(Point.AFTER_EFFECT, "never"))
    await life(world, clock, agent, "w-2", dead=frozenset({"w-1"}))
    assert str(await session.result(1)) == "I shall check."
    assert results(model.requests[1]) == [(IN_DOUBT, True)]
    assert shop.paid == {1: 1}


async def test_a_deployment_changes_the_next_turn_and_not_the_open_one(
    world: World, clock: ManualClock
) -> None:
    shop = Shop()
    old = Agent("tester", Assistant(Listed(says("", wants("look", at="x"))), "Old."), tools=shop.tools())
    model = Listed(says("old way"), says("new way"))
    new = Agent("tester", Assistant(model, "New.", max_calls=1), tools=shop.tools()[:1])
    session = await opened(world, old, "s-1", "go", "again")
    await life(world, clock, old, "w-1", death=Spot(Point.AFTER_OUTCOME, "safe"))
    await life(world, clock, new, "w-2", dead=frozenset({"w-1"}))
    assert [str(await session.result(turn)) for turn in (1, 2)] == ["old way", "new way"]
    assert [request.system for request in model.requests] == ["Old.", "New."]
    assert [len(request.tools) for request in model.requests] == [3, 1]


async def test_a_session_may_name_another_model(world: World, clock: ManualClock) -> None:
    model = Listed(says("hello"))
    agent = agent_of(model, more={"temperature": 0, "max_tokens": 5})
    await opened(world, agent)
    state_settings = {"model": "listed-large"}
    session = await type(await opened(world, agent)).open(world, "s-2", agent=agent, settings=state_settings)
    model.steps.append(says("large"))
    await session.send("go")
    await Desk(world, clock).work(agent)
    assert {request.model for request in model.requests} == {"listed", "listed-large"}
    assert {(request.temperature, request.max_tokens) for request in model.requests} == {(0.0, 5)}


@pytest.mark.parametrize(
    "wrong", [{"compact_at": 0.0}, {"max_calls": 0}, {"more": {"sort": 1}}, {"output": object}]
)
def test_an_assistant_that_cannot_be_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Assistant(Listed(), **wrong)


async def test_a_result_that_nobody_recorded_is_not_made_up(world: World, clock: ManualClock) -> None:
    """A turn with more calls after its answer than are remembered: the rest is said to be unknown."""
    count = 130
    model = Listed(says("", *(wants("look", at=str(at)) for at in range(count))), says("Hm."))
    failed, hm = await told(world, clock, model, "go", "and?", max_calls=1)
    assert (failed[:6], hm) == ("failed", "Hm.")
    texts_of = [text for text, _ in results(model.requests[1])]
    assert len(texts_of) == count
    assert texts_of.count(NOT_KNOWN) == 2
