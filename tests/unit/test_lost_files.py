"""A workspace that is made anew from files older than the log: who is told, of what, and how often."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.adapter import Agent, Places
from outlast.adapters.assistant import Assistant
from outlast.adapters.python import IO, Loop
from outlast.behind import UNKEPT_LIMIT, Behind
from outlast.engine.load import load_state
from outlast.engine.lost import lost_text, touched, touched_by
from outlast.gate import Point
from outlast.gateway.notes import noted
from outlast.model import Answer, Request, Show, TextPart, ToolMessage, UserMessage, quiet
from outlast.records import CallIntent, CallOutcome, FilesLost, LostCall, SteerTaken, Touched
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.workspace_tools import workspace_tools
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.paper import Paper, Scrap, on_paper
from tests.unit.engine_desk import Desk, records
from tests.unit.listed_model import Listed, says, wants

DATA = Path("/nonexistent-data")
STEPS = ("append a 12", "append b 34", "append c 56")


@pytest.fixture(autouse=True)
def _no_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes are made by the worker; these need none."""

    def none(places: Places, *, workspace: bool) -> None:
        pass

    monkeypatch.setattr("outlast.sites.make_places", none)


async def life(world: World, agent: Agent, kind: Paper, name: str, spot: Spot | None = None) -> RecordingGate:
    """One worker, up to its death at a spot or until nothing is left."""
    mortal, record = MortalWorld(world), RecordingGate()
    kind.check = mortal.check
    gate = record if spot is None else DeathGate(spot, mortal, inner=record)
    dead = frozenset({"w-1", "w-2", "w-3"} - {name})
    desk = Desk(mortal, gate=gate, name=name, dead=dead, surroundings=on_paper(mortal, kind, DATA))
    with suppress(Killed):
        await desk.work(agent)
    return record


async def began(world: World, agent: Agent, checkpoint: str) -> Session:
    session = await Session.open(world, "s-1", agent=agent, workspace=Scrap(checkpoint))
    await session.send("go", id="in-1")
    return session


async def looks(io: IO, prompt: str) -> object:
    """Asks before each step what is gone."""
    found: list[object] = []
    for command in STEPS:
        found += await io.lost()
        await io.tool("bash", command=command)
    found += await io.lost()
    return msgspec.to_builtins(found)


def loop() -> Agent:
    return Agent("tester", Loop(looks), tools=workspace_tools())


async def unkept(world: World) -> list[int]:
    """Calls whose changes stand in no tree, while a turn is open."""
    state = await load_state(world, "s-1")
    return [] if state.turn is None else [one.call.call for one in state.behind.unkept]


async def losses(world: World) -> list[FilesLost]:
    return [one for one in await records(world) if isinstance(one, FilesLost)]


@pytest.mark.crash
@pytest.mark.parametrize("checkpoint", ["turn", "off"])
async def test_a_loop_reads_once_whose_changes_are_gone_wherever_its_worker_and_its_machine_died(
    checkpoint: str,
) -> None:
    async with open_memory() as world:
        await began(world, loop(), checkpoint)
        where = spots((await life(world, loop(), Paper(programs=True), "w-1")).crossings)
        assert not await losses(world)
    assert len(where) > 20
    some = 0
    for spot in where:
        async with open_memory() as world:
            session = await began(world, loop(), checkpoint)
            kind = Paper(programs=True)
            await life(world, loop(), kind, "w-1", spot)
            gone = await unkept(world)
            kind.machine, kind.jobs = None, {}
            await life(world, loop(), kind, "w-2")
            told: Any = (await session.result(1)).value
            assert [one["call"] for one in told] == gone, str(spot)
            assert [[one.call for one in loss.calls] for loss in await losses(world)] == (
                [gone] if gone else []
            )
            some += bool(gone)
    assert some > 5


async def test_whoever_dies_again_tells_it_no_second_time() -> None:
    first = Spot(Point.AFTER_OUTCOME, "verify", 2)
    async with open_memory() as world:
        await began(world, loop(), "turn")
        kind = Paper(programs=True)
        await life(world, loop(), kind, "w-1", first)
        kind.machine, kind.jobs = None, {}
        where = spots((await life(world, loop(), kind, "w-2")).crossings)
    for spot in where:
        for lost_again in (False, True):
            async with open_memory() as world:
                session = await began(world, loop(), "turn")
                kind = Paper(programs=True)
                await life(world, loop(), kind, "w-1", first)
                kind.machine, kind.jobs = None, {}
                await life(world, loop(), kind, "w-2", spot)
                if lost_again:
                    kind.machine, kind.jobs = None, {}
                await life(world, loop(), kind, "w-3")
                told: Any = (await session.result(1)).value
                calls = [one["call"] for one in told]
                assert calls[:2] == sorted(calls)[:2]
                assert len(set(calls)) == len(calls), f"{spot}: each is said once"
                assert len(calls) == 2 or (lost_again and len(calls) == 3), str(spot)


async def test_a_machine_that_lives_on_has_what_its_calls_changed() -> None:
    async with open_memory() as world:
        session = await began(world, loop(), "turn")
        kind = Paper(programs=True)
        await life(world, loop(), kind, "w-1", Spot(Point.AFTER_OUTCOME, "verify", 2))
        assert len(await unkept(world)) == 2
        await life(world, loop(), kind, "w-2")
        assert (await session.result(1)).value == []
        assert kind.machine == {"a": "12", "b": "34", "c": "56"}


async def test_where_each_call_s_files_are_written_down_nothing_is_noted() -> None:
    async with open_memory() as world:
        await began(world, loop(), "call")
        await life(world, loop(), Paper(programs=True), "w-1")
        outcomes = [one for one in await records(world) if isinstance(one, CallOutcome)]
        assert all(one.touched is None for one in outcomes)


async def test_what_was_written_down_when_the_turn_ended_is_not_told_as_gone() -> None:
    async with open_memory() as world:
        session = await began(world, loop(), "turn")
        kind = Paper(programs=True)
        await life(world, loop(), kind, "w-1")
        kind.machine, kind.jobs = None, {}
        await session.send("go", id="in-2")
        await life(world, loop(), kind, "w-2")
        assert not await losses(world)


async def test_where_nothing_is_ever_written_down_the_next_turn_is_told_too() -> None:
    async with open_memory() as world:
        session = await began(world, loop(), "off")
        kind = Paper(programs=True)
        await life(world, loop(), kind, "w-1")
        kind.machine, kind.jobs = None, {}
        await session.send("go", id="in-2")
        await life(world, loop(), kind, "w-2")
        (loss,) = await losses(world)
        assert (loss.turn, len(loss.calls), loss.behind) == (2, 3, 0)
        told: Any = (await session.result(2)).value
        assert len(told) == 3


def assistant() -> tuple[Agent, "Asked"]:
    model = Asked(
        says("I write.", wants("write", path="a", content="12"), wants("bash", command="append b 34")),
        says("I go on.", wants("bash", command="append c 56")),
        says("Done."),
    )
    return Agent("tester", Assistant(model), tools=workspace_tools()), model


class Asked(Listed):
    """Answers by how far the conversation is, also one that asks the same again; knows every request."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(*steps)
        self.all: list[Request] = []

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        done = sum(isinstance(message, ToolMessage) for message in request.messages)
        self.all.append(request)
        self.requests = [request] * done
        return await super().ask(request, show)


def told_in(request: Request) -> list[str]:
    users = [one for one in request.messages if isinstance(one, UserMessage)]
    texts = [part.text for one in users for part in one.parts if isinstance(part, TextPart)]
    return [text for text in texts if text.startswith("[outlast]")]


async def test_the_model_of_an_assistant_is_told_before_it_is_asked_anything_new() -> None:
    async with open_memory() as world:
        agent, model = assistant()
        await began(world, agent, "turn")
        where = spots((await life(world, agent, Paper(programs=True), "w-1")).crossings)
    some = 0
    for spot in where:
        async with open_memory() as world:
            agent, model = assistant()
            session = await began(world, agent, "turn")
            kind = Paper(programs=True)
            await life(world, agent, kind, "w-1", spot)
            gone, before = await unkept(world), len(model.all)
            kind.machine, kind.jobs = None, {}
            await life(world, agent, kind, "w-2")
            assert (await session.result(1)).status == "done"
            taken = [one for one in await records(world) if isinstance(one, SteerTaken)]
            new = [told_in(one) for one in model.all[before:]]
            said = [texts for texts in new if texts]
            assert len(await losses(world)) == bool(gone)
            assert len(taken) <= bool(gone)
            if gone and said:
                some += 1
                assert all(len(texts) == 1 for texts in said)
                assert "- write a: a" in said[-1][0]
                assert "in it is not there any more" in said[-1][0]
    assert some > 3


def test_what_a_call_may_have_changed_is_known_by_its_arguments() -> None:
    assert touched_by({"file_path": "a.py", "content": "x"}) == Touched("a.py", ("a.py",))
    assert touched_by({"command": "make  all\nx", "path": "y"}) == Touched("make all x", (), more=True)
    patch = "*** Begin Patch\n*** Add File: n.py\n+x\n*** Update File: u.py\n*** Move to: v.py\n*** End Patch"
    assert touched_by({"input": patch}).paths == ("n.py", "u.py", "v.py")
    assert touched_by({"anything": 1}) == Touched('{"anything":1}', (), more=True)
    assert len(touched_by({"command": "x" * 500}).about) == 121
    assert touched({"path": "p"}, ["a", "b"], more=False) == Touched("p", ("a", "b"))


def test_the_text_names_each_call_and_what_is_known_of_it() -> None:
    calls = [
        LostCall(4, 1, "write", Touched("a.py", ("a.py",))),
        LostCall(5, 1, "bash", Touched("make", (), more=True)),
        LostCall(6, 1, "fix", Touched("{}", ("x", "y"), more=True)),
    ]
    text = lost_text(calls, 0, "at first")
    assert "- write a.py: a.py\n- bash make: whatever it changed\n- fix {}: x, y, and whatever else" in text
    assert "- 3 calls before these\n- write" in lost_text(calls, 3, "at first")


NOTES = {"c1": "NOTE"}


def result(**said: Any) -> Mapping[str, Any]:
    """A request of Anthropic's with a result."""
    return {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", **said}]}]}


def output(said: Any) -> Mapping[str, Any]:
    """A request of OpenAI's Responses with a result."""
    return {"input": [{"type": "function_call_output", "call_id": "c1", "output": said}]}


def block(text: str, kind: str = "text") -> Mapping[str, str]:
    return {"type": kind, "text": text}


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (result(content="r"), "r\n\nNOTE"),
        (result(content=[block("r")]), [block("r"), block("NOTE")]),
        (result(), "NOTE"),
        ({"messages": [{"role": "tool", "tool_call_id": "c1", "content": "r"}]}, "r\n\nNOTE"),
        (output("r"), "r\n\nNOTE"),
        (output([block("r", "input_text")]), [block("r", "input_text"), block("NOTE", "input_text")]),
    ],
)
def test_in_every_dialect_a_note_stands_behind_its_result_and_nothing_else_changes(
    request_: Mapping[str, Any], path: object
) -> None:
    text = msgspec.json.encode(request_)
    found = noted(request_, NOTES)
    assert msgspec.json.encode(request_) == text
    (item,) = next(iter(found.values()))
    bears = item["content"][0] if item.get("role") == "user" else item
    assert bears.get("content", bears.get("output")) == path
    assert noted(request_, {"c2": "NOTE"}) is request_
    assert noted(request_, {}) is request_


def test_what_is_remembered_is_bounded() -> None:
    behind = Behind()
    for call in range(UNKEPT_LIMIT + 7):
        intent = CallIntent(call, 1, "main", 0, "tool", "bash")
        behind.outcome(CallOutcome(call, 1, "ok", touched=Touched("x")), intent, 1)
    assert (len(behind.unkept), behind.past) == (UNKEPT_LIMIT, 7)
    behind.forked()
    assert {one.fence for one in behind.unkept} == {0}
    calls = tuple(one.call for one in behind.unkept)
    behind.lost(FilesLost(1, calls, text="one"), "c1", 3)
    behind.lost(FilesLost(1, (), text="two"), "c1", 4)
    assert behind.notes == {"c1": "one\n\ntwo"}
    assert (behind.unkept, behind.past) == ([], 0)
