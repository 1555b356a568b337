"""A session keeps so many signals and prompts that wait; what comes beyond is refused, and whoever sent it can know."""

from collections.abc import AsyncIterator

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.engine.inbox import PROMPTS_QUEUED, SIGNALS_KEPT
from outlast.errors import SessionBusy, SessionFull
from outlast.records import InputRefused
from outlast.session import Session
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, opened, records


async def loop(io: IO, prompt: str) -> object:
    return [await io.wait_for("go"), *[await io.wait_for("news") for _ in range(2)]]


AGENT = Agent("tester", Loop(loop))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_memory() as found:
        yield found


async def refused(world: World) -> list[InputRefused]:
    return [record for record in await records(world) if isinstance(record, InputRefused)]


async def test_of_too_many_signals_the_newest_is_refused_and_the_oldest_is_taken_first(world: World) -> None:
    session = await opened(world, AGENT)
    for number in range(SIGNALS_KEPT + 2):
        await session.signal("news", number, id=f"news-{number}")
    await Desk(world).work(AGENT)
    assert [record.input for record in await refused(world)] == [
        f"news-{SIGNALS_KEPT}",
        f"news-{SIGNALS_KEPT + 1}",
    ]
    state = await session.state()
    assert len(state.signals) == SIGNALS_KEPT
    await session.signal("other", 1)
    await Desk(world).work(AGENT)
    assert len(await refused(world)) == 3
    assert (await session.head()).waiting_inputs == 0
    await session.signal("go", "now")  # a wait needs it
    await Desk(world).work(AGENT)
    assert (await session.result(1)).value == ["now", 0, 1]


async def test_of_too_many_prompts_the_newest_is_refused_and_its_sender_is_told(world: World) -> None:
    session = await opened(world, AGENT)
    turns = [await session.send("go on", id=f"more-{number}") for number in range(PROMPTS_QUEUED + 1)]
    await Desk(world).work(AGENT)
    # The first of all was queued like the others, and became the open turn afterwards.
    assert [record.input for record in await refused(world)] == [turn.input for turn in turns[-2:]]
    for turn in turns[-2:]:
        with pytest.raises(SessionFull, match="1,000 prompts wait"):
            await turn.result()
    again = await session.send("go on", id="again")
    await session.signal("go", "now")
    for number in range(2):
        await session.signal("news", number)
    await Desk(world).work(AGENT)
    assert (await session.result(1)).status == "done"
    assert again.input not in [record.input for record in await refused(world)]


async def test_steers_that_no_turn_took_are_queued_as_far_as_there_is_room(world: World) -> None:
    session = await opened(world, AGENT)
    await Desk(world).work(AGENT)
    await session.send("me too", id="before")
    for number in range(PROMPTS_QUEUED + 1):
        await session.steer("look here", id=f"steer-{number}")
    await Desk(world).work(AGENT)
    late = [f"steer-{PROMPTS_QUEUED - 1}", f"steer-{PROMPTS_QUEUED}"]
    assert [record.input for record in await refused(world)] == late
    assert len((await session.state()).queue) == PROMPTS_QUEUED
    assert (await session.head()).waiting_inputs == 0


async def test_who_sends_the_same_refused_prompt_again_is_told_the_same(world: World) -> None:
    session = await opened(world, AGENT)
    for number in range(PROMPTS_QUEUED + 1):
        await session.send("go on", id=f"more-{number}")
    await Desk(world).work(AGENT)
    late = await session.send("go on", id=f"more-{PROMPTS_QUEUED}")
    with pytest.raises(SessionFull):
        await late.number()


async def test_a_prompt_that_is_to_run_alone_is_refused_while_another_turn_is_open(world: World) -> None:
    session = await Session.open(world, "s", agent=AGENT)
    first = await session.send("first", id="a", busy="refuse")
    await Desk(world).work(AGENT)
    with pytest.raises(SessionBusy, match="another turn is open"):
        await session.send("second", id="b", busy="refuse")
    assert (await session.send("first", id="a", busy="refuse")).input == first.input, "it is the same turn"
    for name in ("go", "news", "news"):
        await session.signal(name)
    await Desk(world).work(AGENT)
    assert (await first.result()).status == "done"
    assert await world.find_input("s", "b") is None


async def test_of_two_prompts_that_are_to_run_alone_the_worker_takes_the_first(world: World) -> None:
    session = await Session.open(world, "s-1", agent=AGENT)
    turns = [await session.send(text, busy="refuse") for text in ("first", "second")]
    await Desk(world).work(AGENT)
    assert [record.input for record in await refused(world)] == [turns[1].input]
    with pytest.raises(SessionBusy):
        await turns[1].result()
    assert await turns[0].number() == 1
