"""Documents in a turn: a tool's edits land with its outcome or not at all, and a loop always sees the same."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.codec import encode_input
from outlast.documents import Document, Shape, Shapes
from outlast.engine.load import load_state
from outlast.errors import BadEdit
from outlast.gate import Point
from outlast.ids import digest
from outlast.records import (
    AnyEdit,
    CallOutcome,
    Delete,
    DocumentEdited,
    Edit,
    EditRejected,
    Merge,
    Set,
)
from outlast.session import Outcome
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Done, NotDone, Tool, ToolFailed, ToolIO, TryAgain, Verdict, tool
from outlast.world import Input, World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, opened, records


async def edits_of(world: World) -> list[DocumentEdited | EditRejected]:
    return [record for record in await records(world) if isinstance(record, DocumentEdited | EditRejected)]


async def document(world: World, name: str = "plan") -> tuple[int, Any]:
    """Version and value, as the log has them."""
    found = (await load_state(world, "s-1")).documents.get(name)
    return (0, None) if found is None else (found.version, found.value.value())


async def put(world: World, name: str, *edits: AnyEdit, id: str, if_version: int | None = None) -> None:  # noqa: A002
    """An edit of an application, in the inbox."""
    body = encode_input(Edit(name, edits, if_version, by="ann"))
    await world.put_input("s-1", Input(id, digest(body), body))


async def taken(world: World, id: str) -> None:  # noqa: A002
    """Return once it was applied or rejected."""
    async with asyncio.timeout(10), world.subscribe("s-1") as hints:
        while not any(record.input == id for record in await edits_of(world)):
            await hints.wait(0.05)


async def play(world: World, function: LoopFunction, *tools: Tool, shapes: Shapes | None = None) -> Outcome:
    """One turn of a loop."""
    agent = Agent("tester", Loop(function), tools=tools, documents=shapes or {})
    session = await opened(world, agent)
    await Desk(world).work(agent)
    return await session.result(1)


def calls(name: str) -> LoopFunction:
    async def run(io: IO, prompt: str) -> object:
        result = await io.result(name, {})
        return [result.status, result.value]

    return run


async def test_what_a_tool_edits_lands_in_one_commit_with_its_outcome(world: World) -> None:
    seen: list[tuple[int, Any]] = []

    @tool
    async def plan(io: ToolIO) -> str:
        """Plan."""
        assert await io.docs.get("plan") == Document("plan", 0, None)
        await io.docs.edit("plan", Set({"steps": []}))
        done = await io.docs.edit("plan", Set("look", "/steps/-"), if_version=1)
        seen.extend([(done.version, done.value), await document(world)])
        return "planned"

    assert (await play(world, calls("plan"), plan)).value == ["ok", "planned"]
    assert seen == [(2, {"steps": ["look"]}), (0, None)]
    assert await document(world) == (2, {"steps": ["look"]})
    edited = [record for record in await edits_of(world) if isinstance(record, DocumentEdited)]
    assert [(one.version, one.call, one.edits.value()) for one in edited] == [
        (1, 1, None),
        (2, 1, [{"op": "set", "value": "look", "path": "/steps/-"}]),
    ]
    seqs = [record for record in await records(world) if isinstance(record, (DocumentEdited, CallOutcome))]
    assert [type(one).__name__ for one in seqs] == ["DocumentEdited", "DocumentEdited", "CallOutcome"]


@pytest.mark.parametrize("how", ["fails", "raises", "is overdue", "returns nonsense"])
async def test_a_call_that_ends_as_an_error_leaves_no_edit(world: World, how: str) -> None:
    @tool(timeout_s=0.05 if how == "is overdue" else 60.0)
    async def plan(io: ToolIO) -> object:
        """Plan."""
        await io.docs.edit("plan", Set(1))
        if how == "fails":
            raise ToolFailed("no")
        if how == "raises":
            raise ValueError("no")
        if how == "returns nonsense":
            return object()
        await asyncio.sleep(30)
        return "late"

    outcome = await play(world, calls("plan"), plan)
    assert outcome.value[0] == "error"
    assert await edits_of(world) == []


async def test_a_try_that_had_no_effect_leaves_no_edit(world: World) -> None:
    tries: list[int] = []

    @tool(retries=1)
    async def plan(io: ToolIO) -> str:
        """Plan."""
        tries.append((await io.docs.edit("plan", Set(len(tries)))).version)
        if len(tries) == 1:
            raise TryAgain("busy")
        return "planned"

    assert (await play(world, calls("plan"), plan)).value == ["ok", "planned"]
    assert tries == [1, 1]
    assert await document(world) == (1, 1)


def racing(world: World, *edits: AnyEdit, if_version: int | None = None) -> Tool:
    """A tool that edits, and ends when an application was faster."""

    @tool
    async def plan(io: ToolIO) -> str:
        """Plan."""
        await io.docs.edit("plan", *edits, if_version=if_version)
        await put(world, "plan", Set({"from": "ann", "steps": ["hers"]}), id="e-1")
        await taken(world, "e-1")
        return "planned"

    return plan


async def test_an_edit_of_a_tool_is_done_to_what_an_application_left_that_was_faster(world: World) -> None:
    tool_ = racing(world, Set("mine", "/mine"), Merge({"by": "tool"}))
    assert (await play(world, calls("plan"), tool_)).value == ["ok", "planned"]
    assert await document(world) == (
        2,
        {"from": "ann", "steps": ["hers"], "mine": "mine", "by": "tool"},
    )
    edited = [record for record in await edits_of(world) if isinstance(record, DocumentEdited)]
    assert [(one.version, one.by, one.input, one.call) for one in edited] == [
        (1, "ann", "e-1", 0),
        (2, "", "", 1),
    ]


async def test_an_edit_of_a_tool_for_another_version_is_rejected_and_the_model_is_told(world: World) -> None:
    status, said = (await play(world, calls("plan"), racing(world, Set("mine"), if_version=0))).value
    assert status == "error"
    assert "its edits were not kept" in said
    assert "it has version 1, not 0" in said
    assert "It returned: planned" in said
    assert await document(world) == (1, {"from": "ann", "steps": ["hers"]})
    (_, rejected) = await edits_of(world)
    assert isinstance(rejected, EditRejected)
    assert (rejected.name, rejected.call, rejected.version) == ("plan", 1, 1)


class Plan(msgspec.Struct):
    steps: list[str]


async def test_a_tool_is_told_at_once_what_does_not_fit_and_may_do_otherwise(world: World) -> None:
    @tool
    async def plan(io: ToolIO) -> str:
        """Plan."""
        with suppress(BadEdit):
            await io.docs.edit("plan", Set({"steps": 1}))
        with suppress(BadEdit):
            await io.docs.edit("plan", Set({"steps": ["a"]}), if_version=7)
        await io.docs.edit("plan", Set({"steps": ["b"]}))
        await io.docs.edit("notes", Set("anything"))
        return str((await io.docs.get("plan")).read(Plan).steps)

    outcome = await play(world, calls("plan"), plan, shapes={"plan": Shape(Plan, version=4)})
    assert outcome.value == ["ok", "['b']"]
    shapes = [(one.name, one.shape) for one in await edits_of(world) if isinstance(one, DocumentEdited)]
    assert shapes == [("plan", 4), ("notes", 0)]


async def test_code_that_knows_an_older_shape_leaves_the_document_alone(world: World) -> None:
    async def run(io: IO, prompt: str) -> object:
        await io.docs.edit("plan", Set({"steps": []}))
        return "edited"

    assert (await play(world, run, shapes={"plan": Shape(Plan, version=2)})).status == "done"
    older = Agent("tester", Loop(run), documents={"plan": Plan})
    session = await opened(world, older)
    turn = await session.send("again", id="in-2")
    await Desk(world).work(older)
    outcome = await turn.result()
    assert outcome.status == "failed"
    assert "it has shape 2, and this code knows 1" in outcome.error


async def test_a_tool_may_edit_several_things_at_once_and_loses_none(world: World) -> None:
    @tool
    async def plan(io: ToolIO) -> str:
        """Plan."""
        await asyncio.gather(*(io.docs.edit("plan", Set(at, f"/{at}")) for at in range(20)))
        return "planned"

    await play(world, calls("plan"), plan)
    assert await document(world) == (20, {str(at): at for at in range(20)})


async def test_a_large_document_stands_behind_a_blob_and_is_edited_like_any(world: World) -> None:
    @tool
    async def plan(io: ToolIO) -> str:
        """Plan."""
        await io.docs.edit("plan", Set({"text": "long " * 8_000}))
        return "planned"

    async def run(io: IO, prompt: str) -> object:
        await io.tool("plan")
        await io.docs.edit("plan", Set(1, "/a"))
        found = await io.docs.get("plan")
        return [found.version, len(found.value["text"]), found.value["a"]]

    assert (await play(world, run, plan)).value == [2, 40_000, 1]
    state = await load_state(world, "s-1")
    assert state.documents["plan"].value.ref
    assert len(msgspec.json.encode(state.documents)) < 300


async def test_a_loop_edits_reads_and_is_told_what_was_rejected(world: World) -> None:
    async def run(io: IO, prompt: str) -> object:
        said = ""
        first = await io.docs.edit("plan", Set({"a": 1}), if_version=0)
        try:
            await io.docs.edit("plan", Set(2), if_version=0)
        except BadEdit as error:
            said = str(error)
        await io.docs.edit("plan", Delete("/a"))
        last = await io.docs.get("plan")
        return [first.version, first.value, said, last.version, last.value]

    outcome = await play(world, run)
    said = "The document 'plan' is as it was: it has version 1, not 0. Read it again, and edit what is there now."
    assert outcome.value == [1, {"a": 1}, said, 2, {}]


async def everything(io: IO, prompt: str) -> object:
    """Edits of a loop, of its lanes and its tools, rejected ones too."""
    seen: list[Any] = [(await io.docs.get("plan")).version]
    await io.docs.edit("plan", Set({"steps": []}))

    async def lane(of: IO) -> object:
        await of.docs.edit("plan", Set(of.lane, "/steps/-"))
        return (await of.docs.get("plan")).version

    seen.append(await io.tool("note", text="x"))
    seen.extend(await io.gather(lane, lane))
    try:
        await io.docs.edit("plan", Set(0), if_version=99)
    except BadEdit as error:
        seen.append(str(error))
    seen.append(await io.tool("note", text="y"))
    last = await io.docs.get("plan")
    return [*seen, last.version, last.value]


async def life(world: World, agent: Agent, name: str, *, death: Spot | None = None) -> RecordingGate:
    mortal, record = MortalWorld(world), RecordingGate()
    gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, gate=gate, name=name, dead=frozenset({"w-1"})).work(agent)
    return record


async def append_note(io: ToolIO, text: str) -> None:
    there = await io.docs.get("notes")
    await io.docs.edit("notes", Set([*(there.value or []), text]), if_version=there.version)


async def test_a_death_at_every_point_leaves_each_edit_once_and_with_its_outcome() -> None:
    async def verify(io: ToolIO, text: str) -> Verdict:
        if text not in outside:
            return NotDone()
        await append_note(io, text)
        return Done("noted")

    async def note(io: ToolIO, text: str) -> str:
        """Note something, in the document and outside."""
        await append_note(io, text)
        outside.append(text)
        return "noted"

    made = tool(verify=verify)(note)
    agent = Agent("tester", Loop(everything), tools=[made])
    outside: list[str] = []
    async with open_memory() as world:
        session = await opened(world, agent)
        where = spots((await life(world, agent, "w-1")).crossings)
        uncut = (await session.result(1)).value
    assert {spot.policy for spot in where} >= {"document", "verify"}
    assert len(where) > 20
    for spot in where:
        outside = []
        async with open_memory() as world:
            session = await opened(world, agent)
            await life(world, agent, "w-1", death=spot)
            before = await load_state(world, "s-1")
            if before.turn is not None:  # of a call that is open, nothing is kept
                open_calls = {call.intent.call for call in before.turn.open_calls()}
                assert not any(one.call in open_calls for one in await edits_of(world)), str(spot)
            await life(world, agent, "w-2")
            assert sorted(outside) == ["x", "y"], str(spot)
            assert await document(world, "notes") == (2, ["x", "y"]), str(spot)
            value = (await session.result(1)).value
            assert (value[0], value[-2]) == (uncut[0], uncut[-2]), str(spot)
            assert sorted(value[-1]["steps"]) == sorted(uncut[-1]["steps"]), str(spot)
            versions = [
                one.version
                for one in await edits_of(world)
                if isinstance(one, DocumentEdited) and one.name == "plan"
            ]
            assert versions == [1, 2, 3], str(spot)


async def test_a_loop_that_is_walked_again_sees_what_it_saw_though_an_application_came_between(
    world: World,
) -> None:
    async def run(io: IO, prompt: str) -> object:
        first = await io.docs.get("plan")
        edited = await io.docs.edit("plan", Set("mine", "/mine"))
        await io.wait_for("go on")
        last = await io.docs.get("plan")
        return [first.version, edited.value, last.value]

    agent = Agent("tester", Loop(run))
    session = await opened(world, agent)
    await Desk(world).work(agent)
    await put(world, "plan", Set("hers", "/hers"), id="e-1")
    await Desk(world).work(agent)
    await session.signal("go on")
    await Desk(world).work(agent)
    assert (await session.result(1)).value == [0, {"mine": "mine"}, {"mine": "mine", "hers": "hers"}]
    assert await document(world) == (2, {"mine": "mine", "hers": "hers"})


@pytest.mark.parametrize("spot", [Spot(Point.OUTCOME_QUEUED, "never"), Spot(Point.AFTER_EFFECT, "never")])
async def test_a_never_tool_that_is_in_doubt_left_no_edit(world: World, spot: Spot) -> None:
    @tool
    async def plan(io: ToolIO) -> str:
        """Plan."""
        await io.docs.edit("plan", Set(1))
        return "planned"

    agent = Agent("tester", Loop(calls("plan")), tools=[plan])
    session = await opened(world, agent)
    await life(world, agent, "w-1", death=spot)
    await life(world, agent, "w-2")
    status = (await session.result(1)).value[0]
    assert (status, await document(world)) in [("in_doubt", (0, None)), ("ok", (1, 1))]


async def test_an_edit_that_nobody_can_do_is_rejected_and_the_turn_goes_on(world: World) -> None:
    agent = Agent("tester", Loop(calls("plan")), documents={"plan": Plan})
    session = await opened(world, agent)
    await put(world, "plan", Set({"steps": 1}), id="e-1")
    await put(world, "not a name", Set(1), id="e-2")
    await put(world, "plan", Set({"steps": ["a"]}), id="e-3", if_version=0)
    await put(world, "plan", Set({"steps": ["b"]}), id="e-4", if_version=0)
    await put(world, "notes", id="e-5")
    await Desk(world).work(agent)
    assert (await session.result(1)).status == "done"
    said = {one.input: getattr(one, "reason", "applied") for one in await edits_of(world)}
    assert said["e-3"] == "applied"
    assert "Expected `array`" in said["e-1"]
    assert "a document's name" in said["e-2"]
    assert said["e-4"] == "it has version 1, not 0"
    assert "says nothing" in said["e-5"]
    assert (await session.head()).waiting_inputs == 0
