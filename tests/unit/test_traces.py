"""A settled turn is one trace, whatever workers died on the way; a session owes it until the collector took it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import ManualClock
from outlast.engine.ears import NOWHERE
from outlast.engine.load import load_state
from outlast.engine.telling import AGAIN_S
from outlast.fold import records_of
from outlast.gate import Point
from outlast.records import AttemptOpened, NoticeDue, NoticeTried, SessionOpened, TurnSettled
from outlast.session import Session
from outlast.telemetry import names
from outlast.telemetry.measures import measures_of
from outlast.telemetry.reading import story_of
from outlast.telemetry.spans import LOST, spans_of
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import ToolIO, tool
from outlast.tracing import Settled, SpanRef, TurnIds
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.histories.stored import HERE, History
from tests.traced import Kept, Shut, check, tree
from tests.unit.engine_desk import Desk, agent_of, call, opened, records, say, until

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@tool(replay="keyed")
async def look(io: ToolIO) -> str:
    """Look."""
    return "seen"


@tool(on_doubt="tell")
async def wire(io: ToolIO) -> str:
    """Wire money."""
    return "wired"


def spending(text: str, *tools: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 100, "cost_usd": 0.5}
    return {**say(text, *tools), "usage": usage}


SCRIPT = [spending("one", call("look")), spending("two", call("wire")), spending("three")]


def scripted() -> Agent:
    return agent_of(SCRIPT, look, wire)


def looping(run: LoopFunction) -> Agent:
    return Agent("tester", Loop(run))


async def test_a_turn_is_one_trace_with_its_calls(world: World) -> None:
    kept = Kept()
    await opened(world, scripted())
    await Desk(world, collector=kept).work(scripted())
    check(kept.stories[0], kept.spans)
    assert tree(kept.spans) == [
        "invoke_agent tester",
        "  attempt 1",
        "    chat scripted",
        "    execute_tool look",
        "    chat scripted",
        "    execute_tool wire",
        "    chat scripted",
    ]
    chat = next(span for span in kept.spans if span.name.startswith("chat"))
    assert chat.kind == "client"
    assert chat.attributes[names.INPUT_TOKENS] == 110
    assert chat.attributes[names.CACHE_READ] == 100
    assert chat.attributes[names.COST] == 0.5
    assert chat.attributes[names.CONVERSATION] == "s-1"
    assert kept.spans[1].attributes[names.WORKER] == "worker-1"
    assert kept.spans[0].parent is None
    assert [one.ok for one in await records(world) if isinstance(one, NoticeTried)] == [True]


async def test_sent_twice_it_is_the_same(world: World) -> None:
    kept = Kept()
    await opened(world, scripted())
    desk = Desk(world, collector=kept)
    await desk.work(scripted())
    settled = kept.stories[0].settled
    await kept.collect(world, settled)
    assert kept.traces[0] == kept.traces[1]


async def test_whoever_dies_wherever_the_trace_reaches_the_collector_whole() -> None:
    async with open_memory() as world:
        recorded = RecordingGate()
        await opened(world, scripted())
        await Desk(world, gate=recorded, collector=Kept()).work(scripted())
    assert Point.AFTER_TELLING in {crossing.point for crossing in recorded.crossings}
    for spot in spots(recorded.crossings):
        async with open_memory() as world:
            await opened(world, scripted())
            mortal = MortalWorld(world)
            before, after = Kept(mortal=mortal), Kept()
            struck = Desk(mortal, gate=DeathGate(spot, mortal), name="dead", collector=before)
            with pytest.raises(Killed):
                await struck.work(scripted())
            await Desk(world, dead=frozenset({"dead"}), collector=after).work(scripted())
            sent = [*before.traces, *after.traces]
            assert sent, spot
            assert all(trace == sent[0] for trace in sent), spot
            check((before.stories + after.stories)[0], sent[0])
            assert not (await load_state(world, "s-1")).untold, spot
            due = [one for one in await records(world) if isinstance(one, NoticeDue)]
            assert [one.to for one in due] == ["collector"], spot


async def _killed_twice(world: World, point: Point) -> Kept:
    """A turn whose worker is killed at the first crossing of a point, and its successor as well."""
    kept = Kept()
    await opened(world, scripted())
    dead: set[str] = set()
    for name in ("first", "second"):
        mortal = MortalWorld(world)
        gate = DeathGate(Spot(point, "keyed", 1), mortal)
        desk = Desk(mortal, gate=gate, name=name, dead=frozenset(dead), collector=kept)
        with pytest.raises(Killed):
            await desk.work(scripted())
        dead.add(name)
    await Desk(world, name="third", dead=frozenset(dead), collector=kept).work(scripted())
    return kept


async def test_a_turn_killed_twice_is_one_trace_with_its_attempts(world: World) -> None:
    kept = await _killed_twice(world, Point.IN_EFFECT)
    check(kept.stories[0], kept.spans)
    assert tree(kept.spans) == [
        "invoke_agent tester",
        "  attempt 1 !worker_lost",
        "    chat scripted",
        "    execute_tool look !worker_lost",
        "  attempt 2 !worker_lost",
        "    execute_tool look !worker_lost",
        "  attempt 3",
        "    execute_tool look",
        "    chat scripted",
        "    execute_tool wire",
        "    chat scripted",
    ]
    looks = [span for span in kept.spans if span.name == "execute_tool look"]
    assert [[ref.span for ref in span.links] for span in looks] == [[], [looks[0].id], [looks[1].id]]
    third = kept.spans[[span.name for span in kept.spans].index("attempt 3")]
    assert third.attributes[names.SERVED_CALLS] == 1
    assert third.attributes[names.SERVED_TOKENS] == 113
    assert third.attributes[names.SERVED_COST] == 0.5
    found = {one.name: one.value for one in measures_of(kept.stories[0], kept.spans)}
    assert (found[names.LOST], found[names.RECOVERIES]) == (2, 2)
    timed = [one for one in measures_of(kept.stories[0], kept.spans) if one.name == names.TOOL_DURATION]
    assert len(timed) == 2  # how long the lost ones took nobody knows


async def test_a_call_in_doubt_says_so(world: World) -> None:
    kept = Kept()
    await opened(world, scripted())
    mortal = MortalWorld(world)
    gate = DeathGate(Spot(Point.IN_EFFECT, "never", 1), mortal)
    struck = Desk(mortal, gate=gate, name="dead", collector=kept)
    with pytest.raises(Killed):
        await struck.work(scripted())
    await Desk(world, dead=frozenset({"dead"}), collector=kept).work(scripted())
    check(kept.stories[0], kept.spans)
    (wired,) = [span for span in kept.spans if span.name == "execute_tool wire"]
    assert (wired.error, wired.attributes[names.STATUS], wired.attributes[names.IN_DOUBT]) == (
        LOST,
        "in_doubt",
        True,
    )
    found = {one.name: one.value for one in measures_of(kept.stories[0], kept.spans)}
    assert found[names.DOUBTS] == 1


@tool(on_doubt="ask")
async def pay(io: ToolIO) -> str:
    """Pay."""
    return "paid"


async def test_who_looks_at_a_parked_turn_and_leaves_it_is_not_lost(world: World) -> None:
    kept, agent = Kept(), agent_of([call("pay"), say("one")], pay)
    session = await opened(world, agent)
    mortal = MortalWorld(world)
    gate = DeathGate(Spot(Point.IN_EFFECT, "never", 1), mortal)
    struck = Desk(mortal, gate=gate, name="dead", collector=kept)
    with pytest.raises(Killed):
        await struck.work(agent)
    desk = Desk(world, dead=frozenset({"dead"}), collector=kept)
    for name in ("more", "still more"):
        await desk.work(agent)
        await session.send(name)
    await desk.work(agent)
    await session.decide(1, "done", "paid")
    await desk.work(agent)
    first = kept.traces[0]
    check(kept.stories[0], first)
    assert [span.error for span in first if span.name.startswith("attempt")] == [LOST, "", ""]
    assert first[0].attributes[names.ATTEMPTS_LOST] == 1
    claims = [record for record in await records(world) if isinstance(record, AttemptOpened)]
    assert len(claims) > len(kept.stories[0].bar.attempts) == 3, "some only looked"
    (paid,) = [span for span in first if span.name == "execute_tool pay"]
    assert paid.attributes[names.DECISION] == "done"


async def test_a_turn_stands_beneath_whoever_asked_for_it(world: World) -> None:
    kept, agent = Kept(), agent_of([say("one")])
    session = await Session.open(world, "s-1", agent=agent)
    await session.send("go", traceparent=CALLER)
    await session.send("go", traceparent="nonsense")
    await Desk(world, collector=kept).work(agent)
    beneath, own = (trace[0] for trace in kept.traces)
    assert beneath.parent == SpanRef.read(CALLER)
    assert f"{beneath.trace:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert own.parent is None
    assert own.trace not in {0, beneath.trace}


async def test_the_same_prompt_sent_again_on_behalf_of_another_span_is_the_same(world: World) -> None:
    agent = agent_of([say("one")])
    session = await Session.open(world, "s-1", agent=agent)
    await session.send("go", id="in-1", traceparent=CALLER)
    await session.send("go", id="in-1", traceparent=CALLER.replace("b7ad", "aaaa"))
    assert len(await world.inputs("s-1")) == 1


async def test_a_session_that_was_spawned_stands_in_the_trace_of_its_parent(world: World) -> None:
    async def run(io: IO, prompt: str) -> object:
        return "made" if prompt == "child" else await io.spawn("tester", "child")

    kept, agent = Kept(), looping(run)
    await opened(world, agent)
    await Desk(world, collector=kept).work(agent)
    child, parent = kept.traces
    assert {span.trace for span in child} == {span.trace for span in parent}
    assert tree([*parent, *child]) == [
        "invoke_agent tester",
        "  attempt 1",
        "  attempt 2",
        "  wait spawn",
        "    invoke_agent tester",
        "      attempt 1",
    ]
    for story, trace in zip(kept.stories, kept.traces, strict=True):
        if story.settled.session == "s-1":
            check(story, trace)


async def test_a_wait_outlives_attempts_and_is_one_span() -> None:
    async def run(io: IO, prompt: str) -> object:
        await io.sleep(3600.0)
        return "rested"

    clock, kept, agent = ManualClock(), Kept(), looping(run)
    async with open_memory(MemoryStore(clock)) as world:
        await opened(world, agent)
        desk = Desk(world, clock, collector=kept)
        await desk.work(agent)
        assert not kept.traces
        clock.turn(3600.0)
        await desk.work(agent)
    check(kept.stories[0], kept.spans)
    assert tree(kept.spans) == ["invoke_agent tester", "  attempt 1", "  attempt 2", "  wait sleep"]
    wait = kept.spans[-1]
    assert wait.ended_s - wait.began_s == pytest.approx(3600.0)
    found = {one.name: one.value for one in measures_of(kept.stories[0], kept.spans)}
    assert names.LOST not in found
    assert names.RECOVERIES not in found


async def test_a_fork_tells_what_it_did_itself(world: World) -> None:
    kept = Kept()
    session = await opened(world, scripted())
    mortal = MortalWorld(world)
    gate = DeathGate(Spot(Point.IN_EFFECT, "keyed", 1), mortal)
    struck = Desk(mortal, gate=gate, name="dead", collector=kept)
    with pytest.raises(Killed):
        await struck.work(scripted())
    head = await session.head()
    await session.fork(head.seq, id="s-2")
    await Desk(world, dead=frozenset({"dead"}), collector=kept).work(scripted())
    stories = {story.settled.session: at for at, story in enumerate(kept.stories)}
    source, fork = kept.traces[stories["s-1"]], kept.traces[stories["s-2"]]
    assert not {span.id for span in source} & {span.id for span in fork}
    assert source[0].trace != fork[0].trace
    assert fork[0].attributes[names.FORKED_FROM] == "s-1"
    assert [line.strip() for line in tree(fork)].count("chat scripted") == 2
    assert [line.strip() for line in tree(source)].count("chat scripted") == 3


async def test_two_worlds_with_a_session_of_one_name_are_two_traces() -> None:
    traces: list[int] = []
    for _ in range(2):
        async with open_memory() as world:
            kept, agent = Kept(), agent_of([say("one")])
            await opened(world, agent)
            await Desk(world, collector=kept).work(agent)
            traces.append(kept.spans[0].trace)
    assert traces[0] != traces[1]


async def test_a_collector_that_takes_nothing_holds_back_no_turn(world: World) -> None:
    shut, agent = Shut(), agent_of([say("one")])
    session = await opened(world, agent)
    async with Desk(world, collector=shut).working(agent) as work:
        await until(lambda: shut.came)
        assert (await session.result(1)).status == "done"
        turn = await session.send("again")
        assert (await turn.result()).status == "done"
        assert shut.came == 1
        shut.open.set()
        await work
    assert shut.came == 2


async def test_a_slow_collector_keeps_nobody_from_being_told() -> None:
    class Heard:
        def __init__(self) -> None:
            self.told = asyncio.Event()

        async def tell(self, notice: object) -> str:
            self.told.set()
            return ""

    async with open_memory() as world:
        shut, heard, agent = Shut(), Heard(), agent_of([say("one")])
        await opened(world, agent)
        async with Desk(world, collector=shut, notifier=heard).working(agent) as work:
            async with asyncio.timeout(5.0):
                await heard.told.wait()
            shut.open.set()
            await work
        due = [one for one in await records(world) if isinstance(one, NoticeDue)]
        assert [(one.number, one.to) for one in due] == [(1, "notifier"), (2, "collector")]


async def test_what_was_not_taken_is_sent_again_and_a_worker_that_sends_nothing_leaves_it() -> None:
    clock, kept, agent = ManualClock(), Kept(failures=["no line"]), agent_of([say("one")])
    async with open_memory(MemoryStore(clock)) as world:
        await opened(world, agent)
        await Desk(world, clock, collector=kept).work(agent)
        clock.turn(AGAIN_S[0])
        await Desk(world, clock).work(agent)
        tried = [one for one in await records(world) if isinstance(one, NoticeTried)]
        assert [one.error for one in tried] == ["no line", NOWHERE]
        clock.turn(AGAIN_S[1])
        await Desk(world, clock, collector=kept).work(agent)
        assert len(kept.traces) == 1


async def test_of_an_old_session_only_the_turn_is_read(world: World) -> None:
    kept, agent = Kept(), agent_of([say("one")])
    await opened(world, agent, "s-1", *(f"prompt {number}" for number in range(30)))
    await Desk(world, collector=kept).work(agent)
    assert [story.bar.turn for story in kept.stories] == list(range(1, 31))
    newest = kept.stories[-1].settled.due
    assert 0 < (await world.get("s-1")).seq - newest.since < 10


async def test_without_a_collector_nothing_is_written(world: World) -> None:
    agent = agent_of([say("one")])
    await opened(world, agent)
    await Desk(world).work(agent)
    assert not [one for one in await records(world) if isinstance(one, NoticeDue)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
    ],
)
def test_what_is_no_traceparent_counts_for_nothing(text: str) -> None:
    assert SpanRef.read(text) is None


def test_a_traceparent_is_written_as_it_was_read() -> None:
    for text in (CALLER, CALLER[:-2] + "00"):
        found = SpanRef.read(text)
        assert found is not None
        assert found.write() == text
    later = SpanRef.read(f"01{CALLER[2:]}-more")
    assert later is not None
    assert later.write() == CALLER


def test_ids_differ_with_whatever_they_are_of() -> None:
    ids = TurnIds("default", "f", "s", 1)
    others: Sequence[TurnIds] = [
        TurnIds("other", "f", "s", 1),
        TurnIds("default", "g", "s", 1),
        TurnIds("default", "f", "t", 1),
        TurnIds("default", "f", "s", 2),
    ]
    assert len({one.trace for one in (ids, *others)}) == 5
    found = [ids.root, ids.attempt(1), ids.attempt(2), ids.call(1, 1), ids.call(1, 2), ids.call(2, 1)]
    assert len({*found, ids.call(1, 1, 1), ids.lane("1", 1)}) == 8
    assert ids == TurnIds("default", "f", "s", 1)


def _histories() -> list[Path]:
    return sorted(
        path for path in HERE.glob("v*/*.json") if path.suffixes == [".json"] and path.stem != "schema"
    )


@pytest.mark.parametrize("path", _histories(), ids=lambda path: path.stem)
def test_every_turn_of_every_stored_history_has_a_trace(path: Path) -> None:
    history = msgspec.json.decode(path.read_bytes(), type=History)
    commits = history.commits()
    found = [record for commit in commits for record in records_of(history.session, commit)]
    opened = next(record for record in found if isinstance(record, SessionOpened))
    over = [record.turn for record in found if isinstance(record, TurnSettled)]
    for turn in dict.fromkeys(over):
        due = NoticeDue(1, turn, "settled", to="collector")
        story = story_of(Settled("default", history.session, opened, due), commits)
        assert story is not None
        spans = spans_of(story)
        check(story, spans)
        list(measures_of(story, spans))
