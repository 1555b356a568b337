"""A program edits the session's documents through a tool call: with the call's outcome, once, or not at all."""

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from outlast.adapter import Agent
from outlast.adapters.scripted import Scripted
from outlast.documents import Shape
from outlast.engine.load import load_state
from outlast.offers import DOCUMENT
from outlast.records import CallOutcome, DocumentEdited, EditRejected, Set
from outlast.rules import deny
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, call, opened, records, say


class Plan(msgspec.Struct):
    steps: list[str] = []


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_memory() as made:
        yield made


def document(name: str = "plan", **more: object) -> dict[str, Any]:
    return {"do": "tool", "name": DOCUMENT, "arguments": {"name": name, **more}}


def put(value: object) -> dict[str, Any]:
    return {"op": "set", "value": value}


def add(step: str, **more: Any) -> dict[str, Any]:
    return document(edits=[{"op": "set", "path": "/steps/-", "value": step}], **more)


async def told(world: World, *calls: Mapping[str, Any], **agent: Any) -> list[Any]:
    """What a program is told of these calls, one after the other."""
    whole = Agent("tester", Scripted(script=calls), **agent)
    session = await opened(world, whole)
    await Desk(world).work(whole)
    value: list[Any] = (await session.result(1)).value
    return value


async def test_a_program_reads_and_edits_a_document_that_the_application_has(world: World) -> None:
    begin = put({"steps": ["look"], "done": False})
    more: dict[str, Any] = {"op": "merge", "value": {"done": None, "owner": "ann"}}
    gone = {"op": "delete", "path": "/steps/0"}
    said = await told(
        world, document(), document(edits=[begin]), document(edits=[more, gone], if_version=1), document()
    )
    assert said == [
        {"name": "plan", "version": 0, "value": None},
        {"name": "plan", "version": 1},
        {"name": "plan", "version": 2},
        {"name": "plan", "version": 2, "value": {"steps": [], "owner": "ann"}},
    ]
    session = await Session.find(world, "s-1")
    assert (await session.document("plan")).value == {"steps": [], "owner": "ann"}
    written = await records(world)
    edits = [place for place, record in enumerate(written) if isinstance(record, DocumentEdited)]
    for place in edits:  # the outcome of its call follows in the same commit
        edit, outcome = written[place], written[place + 1]
        assert isinstance(edit, DocumentEdited)
        assert isinstance(outcome, CallOutcome)
        assert edit.call == outcome.call


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (document(edits=[put({"steps": "no list"})]), "Expected `array`"),
        (document(edits=[{"op": "set", "path": "steps", "value": 1}]), "no JSON pointer"),
        (document(edits=[{"op": "push", "value": 1}]), "Invalid value 'push'"),
        (document(edits="all"), "Expected `array`"),
        (document(name="../plan", edits=[put({})]), "a document's name is"),
        (document(edits=[put({"steps": []})], if_version=3), "version 0, not 3"),
        (document(edits=[put({"steps": ["x" * 66_000]})]), "more than 65,536"),
        (call(DOCUMENT, document="plan"), "unknown field"),
    ],
)
async def test_an_edit_that_cannot_be_made_says_why_and_changes_nothing(
    world: World, asked: Mapping[str, Any], words: str
) -> None:
    (said,) = await told(world, asked, documents={"plan": Shape(Plan)})
    assert said["status"] == "error"
    assert words in said["value"]
    assert not [record for record in await records(world) if isinstance(record, DocumentEdited)]


async def test_a_rule_forbids_a_program_the_edit_of_a_document(world: World) -> None:
    rules = [deny(DOCUMENT, name="secret*")]
    said = await told(world, document("secret-1"), document("plan"), rules=rules)
    assert said[0]["status"] == "error"
    assert "not allowed" in said[0]["value"]
    assert said[1]["version"] == 0


async def test_calls_of_one_answer_each_keep_their_edit(world: World) -> None:
    begin = document(edits=[put({"steps": []})])
    await told(world, begin, say("I note", *(add(f"step {number}") for number in range(5))))
    found = await (await Session.find(world, "s-1")).document("plan")
    assert found.version == 6
    assert sorted(found.value["steps"]) == [f"step {number}" for number in range(5)]


@tool(replay="safe")
async def meddle(io: ToolIO) -> str:
    """Edit what the program edits too."""
    await io.docs.edit("plan", Set("a tool's", "/steps/-"))
    return "meddled"


BEGIN = document(edits=[put({"steps": []})], if_version=0)
SCRIPT = [BEGIN, say("I note", add("a"), add("b")), call("meddle"), add("late", if_version=1), document()]


async def life(world: World, agent: Agent, name: str, death: Spot | None = None) -> list[Spot]:
    """One worker: carries the session on until it dies or nothing is left. Returns where it could have died."""
    mortal, record = MortalWorld(world), RecordingGate()
    gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, gate=gate, name=name, dead=frozenset({"w-1"})).work(agent)
    return spots(record.crossings)


@pytest.mark.crash
async def test_a_death_at_every_point_leaves_each_edit_of_a_program_once() -> None:
    async def play(*deaths: Spot) -> list[Spot]:
        async with open_memory() as world:
            agent = Agent("tester", Scripted(script=SCRIPT), tools=[meddle])
            session = await opened(world, agent)
            for death in deaths:
                await life(world, agent, "w-1", death)
                state = await load_state(world, "s-1")
                if state.turn is not None:  # of a call that is open, nothing is kept
                    opens = {one.intent.call for one in state.turn.open_calls()}
                    landed = [one.call for one in await records(world) if isinstance(one, DocumentEdited)]
                    assert not opens & set(landed)
            where = await life(world, agent, "w-2")
            value = (await session.result(1)).value
            steps = value[-1]["value"]["steps"]
            assert (value[-1]["version"], sorted(steps)) == (4, ["a", "a tool's", "b"]), str(deaths)
            assert value[-2]["status"] == "error", "the edit of an old version was refused"
            assert not [one for one in await records(world) if isinstance(one, EditRejected)]
            return where

    where = await play()
    assert len(where) > 15
    for spot in where:
        await play(spot)
