"""How long watchers are shown what a call said while it was open: to the end of the turn after its own."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import anyio
import pytest

from outlast.adapter import Agent
from outlast.errors import WorldUnavailable
from outlast.records.events import Event
from outlast.session import Session
from outlast.testing.faults import AroundWorld
from outlast.tool import ToolIO, tool
from outlast.watch import Screen
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, agent_of, call, opened, until

T = TypeVar("T")


class Noted(AroundWorld):
    """Notes what is asked of it, and fails once in dropping deltas if it is told to."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.asked: list[str] = []
        self.fails = False

    async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        self.asked.append(operation)
        if operation == "drop_deltas" and self.fails:
            self.fails = False
            raise WorldUnavailable(world="noted", reason="it is gone")
        return await super().around(operation, ask)


def showing(world: Noted) -> Agent:
    """An agent whose tool ends only when watchers have what it shows."""

    @tool(replay="safe")
    async def show(io: ToolIO) -> str:
        """Show something."""
        before = world.asked.count("publish")
        io.show("one two three")
        await until(lambda: world.asked.count("publish") > before)
        return "shown"

    return agent_of([call("show")], show)


@pytest.fixture
async def world() -> AsyncGenerator[Noted]:
    async with open_memory(MemoryStore()) as memory:
        yield Noted(memory)


async def shown(session: Session, turns: int) -> list[Event]:
    """What a watcher who comes late sees, up to the end of that turn."""
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with aclosing(session.follow()) as coming:
            async for event in coming:
                seen.append(event)
                if (event.kind, event.turn) == ("turn.settled", turns):
                    break
    return seen


def texts_by_turn(seen: list[Event]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for event in seen:
        if event.kind == "call.output":
            texts[event.turn] = texts.get(event.turn, "") + event.text
    return texts


async def test_the_turn_that_just_ended_is_shown_whole_and_those_before_it_as_gaps(world: Noted) -> None:
    agent = showing(world)
    session = await opened(world, agent, "s-1", "a", "b", "c")
    await Desk(world).work(agent)
    seen = await shown(session, 3)
    assert texts_by_turn(seen) == {3: "one two three"}
    assert [event.kind for event in seen].count("gap") == 2
    assert len([event for event in seen if event.kind == "call.settled"]) == 3


async def test_deltas_are_dropped_once_a_turn_and_behind_its_settlement(world: Noted) -> None:
    agent = showing(world)
    await opened(world, agent, "s-1", "a", "b")
    await Desk(world).work(agent)
    assert world.asked.count("drop_deltas") == 2
    settled = [place for place, operation in enumerate(world.asked) if operation == "commit_many"]
    first = world.asked.index("drop_deltas")
    assert settled[0] < first


async def test_what_one_turn_failed_to_drop_the_next_one_drops(world: Noted) -> None:
    agent = showing(world)
    session = await opened(world, agent, "s-1", "a", "b")
    await Desk(world).work(agent)
    world.fails = True
    await session.send("c", id="in-3")
    await Desk(world).work(agent)
    assert set(texts_by_turn(await shown(session, 3))) == {2, 3}
    await session.send("d", id="in-4")
    await Desk(world).work(agent)
    assert set(texts_by_turn(await shown(session, 4))) == {4}


async def test_a_screen_that_meets_gaps_ends_as_one_that_saw_everything(world: Noted) -> None:
    agent = showing(world)
    session = await opened(world, agent, "s-1", "a")
    await Desk(world).work(agent)
    whole = await shown(session, 1)
    await session.send("b", id="in-2")
    await Desk(world).work(agent)
    late = await shown(session, 1)
    assert "gap" not in {event.kind for event in whole}
    assert "call.output" not in {event.kind for event in late}
    screens = Screen(), Screen()
    for screen, events in zip(screens, (whole, late), strict=True):
        for event in events:
            screen.apply(event)
    assert screens[0].lines() == screens[1].lines()


def test_text_behind_a_gap_is_not_joined_to_the_text_before_it() -> None:
    screen = Screen()
    screen.apply(Event("1.0", "call.opened", 1, 1, "main", 1, "model"))
    screen.apply(Event("1.1", "call.text", 1, 1, "main", 1, text="Do it"))
    screen.apply(Event("1.2", "gap", facts={"deltas": 1}))
    screen.apply(Event("1.3", "call.text", 1, 1, "main", 1, text=" now", offset=9))
    assert screen.calls[1].shown == {"text": "Do it" + 4 * "…" + " now"}
