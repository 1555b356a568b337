"""The editor: a session for each question, one text of what they came to."""

from examples.editor import PATIENCE_S, agents_of, editor, researcher
from outlast.clock import ManualClock
from outlast.session import Session
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.family_desk import Family
from tests.unit.listed_model import Listed, says, texts


async def test_each_question_has_a_session_and_the_text_holds_what_they_found() -> None:
    clock, model = ManualClock(), Listed(says("A lot."), says("Nobody."), says("It is dear and alone."))
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, "s-1", agent="editor", clock=clock)
        await session.send("What does it cost? / Who else offers it?", id="in-1")
        await Family(world, clock, agents_of(model)).work()
        assert (await session.result(1)).value == "It is dear and alone."
        assert len((await world.list()).sessions) == 3
    (notes,) = texts(model.requests[2])
    assert {"A lot.", "Nobody."} <= set(notes.splitlines())


async def test_who_finds_nothing_within_an_hour_is_left_out() -> None:
    clock, model = ManualClock(), Listed(says("Little is known."))
    desk, _ = agents_of(model)
    async with open_memory(MemoryStore(clock)) as world:
        session = await Session.open(world, "s-1", agent="editor", clock=clock)
        await session.send("What does it cost?", id="in-1")
        await Family(world, clock, [desk]).work()
        clock.turn(PATIENCE_S)
        await Family(world, clock, [desk]).work()
        assert (await session.result(1)).value == "Little is known."
    assert "Nobody knew within an hour." in texts(model.requests[0])[0]


def test_the_agents_of_the_example_can_be_named() -> None:
    assert (editor.name, researcher.name) == ("editor", "researcher")
