"""A word about an asking that is over changes nothing, however narrowly it came too late."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from outlast.adapter import Agent
from outlast.awaited import awaited_by
from outlast.deciding import Word, decide
from outlast.errors import Refused
from outlast.gate import Point
from outlast.records import CallOutcome, Decided, InputDropped
from outlast.session import Session
from outlast.testing.faults import AroundWorld, DeathGate, Killed, MortalWorld, Spot
from outlast.tool import ToolIO, tool
from outlast.world import World
from tests.unit.engine_desk import Desk, agent_of, call, opened, records, say

T = TypeVar("T")


@tool(on_doubt="ask")
async def pay(io: ToolIO) -> str:
    """Pay."""
    return "paid"


def payer() -> Agent:
    return agent_of([call("pay"), say("one")], pay)


async def killed_while_it_pays(world: World, agent: Agent, name: str, dead: frozenset[str]) -> None:
    mortal = MortalWorld(world)
    gate = DeathGate(Spot(Point.IN_EFFECT, "never", 1), mortal)
    with pytest.raises(Killed):
        await Desk(mortal, gate=gate, name=name, dead=dead).work(agent)


async def asked_anew(world: World, agent: Agent, session: Session) -> None:
    """Somebody lets it run again, its worker is killed again, and it is in doubt again."""
    await session.decide(1, "run_again", id="first")
    await killed_while_it_pays(world, agent, "dead-too", frozenset({"dead"}))
    await Desk(world, dead=frozenset({"dead", "dead-too"})).work(agent)


async def in_doubt(world: World, agent: Agent) -> tuple[Session, str]:
    """A session whose call is in doubt, and which asking that is."""
    session = await opened(world, agent)
    await killed_while_it_pays(world, agent, "dead", frozenset())
    await Desk(world, dead=frozenset({"dead"})).work(agent)
    return session, await asking(session)


async def asking(session: Session) -> str:
    [one] = await awaited_by(session, await session.state())
    return one.ask


class Between(AroundWorld):
    """Something happens just before an input arrives."""

    happens: Callable[[], Awaitable[None]] | None = None

    async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        if operation == "put_input" and self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()
        return await ask()


@pytest.mark.parametrize("own", [None, "my-own"])
async def test_a_word_that_is_overtaken_on_its_way_does_not_count_for_the_next_asking(
    world: World, own: str | None
) -> None:
    agent = payer()
    session, first = await in_doubt(world, agent)
    around = Between(world)

    async def meanwhile() -> None:
        await asked_anew(world, agent, session)

    around.happens = meanwhile
    late = await Session.find(around, session.id)
    await decide(late, 1, Word("failed", "no", ask=first, id=own))
    desk = Desk(world, dead=frozenset({"dead", "dead-too"}))
    await desk.work(agent)
    log = await records(world)
    assert [one.ruling for one in log if isinstance(one, Decided)] == ["run_again"]
    dropped = [one.reason for one in log if isinstance(one, InputDropped)]
    assert dropped == ["call 1 is asked about anew since"]
    second = await asking(session)
    assert second != first, "it still waits for a word"
    with pytest.raises(Refused):
        await decide(session, 1, Word("failed", "no", ask=first))
    await decide(session, 1, Word("done", "paid", ask=second))
    await desk.work(agent)
    assert (await session.result(1)).status == "done"
    assert [one.status for one in await records(world) if isinstance(one, CallOutcome) and one.call == 1] == [
        "ok"
    ]


async def test_the_same_word_again_is_the_same_also_when_it_names_no_asking_any_more(world: World) -> None:
    agent = payer()
    session, first = await in_doubt(world, agent)
    assert await decide(session, 1, Word("failed", "no", id="mine")) == "mine"
    assert await decide(session, 1, Word("failed", "no", ask=first, id="mine")) == "mine"
    await Desk(world, dead=frozenset({"dead"})).work(agent)
    assert await decide(session, 1, Word("failed", "no", id="mine")) == "mine"
    assert [one.ruling for one in await records(world) if isinstance(one, Decided)] == ["failed"]
