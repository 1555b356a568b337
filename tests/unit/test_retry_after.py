"""A provider is asked again no sooner than it asked for, whatever else ends the attempt."""

import asyncio
from functools import partial

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.errors import ModelCallFailed
from outlast.model import Answer, Request, Show, quiet, user
from outlast.retry_after import retry_after_s
from outlast.session import Session
from outlast.tool import ToolIO, tool
from outlast.world import World
from tests.unit.engine_desk import Desk, opened
from tests.unit.listed_model import Listed, says, texts

HOUR_S = 3600.0


class Tired(Listed):
    """A provider that refuses what it is asked first, and says for how long; in the order of the texts."""

    def __init__(self, clock: ManualClock, **refusals: float) -> None:
        super().__init__(*[says("hello")] * len(refusals))
        self.asked: list[tuple[str, float]] = []
        self.clock = clock
        self.refusals = refusals
        self.turns = {name: asyncio.Event() for name in refusals}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        (name,) = texts(request)
        self.asked.append((name, self.clock.now()))
        if name not in self.refusals:
            return await super().ask(request, show)
        earlier = [before for before in self.refusals if before < name]
        while earlier:
            await self.turns[earlier.pop()].wait()
        later = ModelCallFailed(status=429, reason="later")
        later.retry_after_s = self.refusals.pop(name)
        self.turns[name].set()
        raise later


async def again_s(session: Session, clock: ManualClock) -> float:
    turn = (await session.state()).turn
    assert turn is not None
    assert (await session.head()).wake_at_s == turn.again_at_s
    return turn.again_at_s - clock.now()


@pytest.mark.parametrize("longest", ["a", "b"])
async def test_of_two_that_refuse_at_once_the_longer_pause_is_kept(
    world: World, clock: ManualClock, longest: str
) -> None:
    model = Tired(clock, **{name: HOUR_S if name == longest else 5.0 for name in ("a", "b")})

    async def one(io: IO, name: str) -> None:
        await io.model(model, [user(name)])

    async def both(io: IO, prompt: str) -> object:
        await io.gather(partial(one, name="a"), partial(one, name="b"))
        return len(model.asked)

    agent = Agent("tester", Loop(both))
    session = await opened(world, agent)
    await Desk(world, clock).work(agent)
    assert await again_s(session, clock) == HOUR_S
    clock.turn(HOUR_S)
    await Desk(world, clock, name="worker-2").work(agent)
    assert (await session.result(1)).value == 4


async def test_who_takes_over_from_a_worker_whose_time_was_over_keeps_the_pause_too(
    world: World, clock: ManualClock
) -> None:
    model = Tired(clock, a=HOUR_S)
    desk, late = Desk(world, clock), list[str]()

    @tool(replay="safe")
    async def work(io: ToolIO) -> None:
        """Work for longer than its worker has time."""
        await model.turns["a"].wait()
        if not late:
            late.append("the first of its workers")
            desk.control.hand_over()
            await asyncio.get_running_loop().create_future()

    async def both(io: IO, prompt: str) -> object:
        await io.gather(lambda lane: lane.model(model, [user("a")]), lambda lane: lane.tool(work))
        return [at_s for _, at_s in model.asked]

    agent = Agent("tester", Loop(both), tools=[work])
    session = await opened(world, agent)
    await desk.work_once(agent)
    assert await again_s(session, clock) == HOUR_S
    clock.turn(HOUR_S)
    await Desk(world, clock, name="worker-2").work(agent)
    first_s, second_s = (await session.result(1)).value
    assert second_s - first_s == HOUR_S


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, 0),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "1"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "nan"}, 0),
        ({"retry-after": "inf"}, 0),
        ({"retry-after": "1e9"}, 86400),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 -0000"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 0),
        ({"retry-after": "Thu, 21 Oct 2027 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 86400),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0),
    ],
)
def test_a_wait_is_read_in_every_form_that_it_comes_in(headers: dict[str, str], wait_s: float) -> None:
    assert retry_after_s(headers) == wait_s


def test_a_date_is_taken_by_our_own_clock_where_the_response_does_not_say_when_it_was_made() -> None:
    assert retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now_s=18.0) == 42
