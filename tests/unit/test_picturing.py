"""The picture of a session is read from its log, whatever killed its workers."""

import pytest

from outlast.clock import ManualClock
from outlast.errors import SessionUnknown
from outlast.gate import Point
from outlast.picturing import picture_of
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.timeline import LogCost
from outlast.tool import ToolIO, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, MemoryWorld
from tests.unit.engine_desk import Desk, agent_of, call, opened, say


@tool(replay="keyed")
async def look(io: ToolIO) -> str:
    """Look."""
    return "seen"


AGENT = agent_of([say("first"), call("look"), say("second")], look)


async def _killed(spot: Spot) -> World:
    world = MemoryWorld(MemoryStore(ManualClock()))
    await opened(world, AGENT)
    mortal = MortalWorld(world)
    with pytest.raises(Killed):
        await Desk(mortal, ManualClock(), DeathGate(spot, mortal)).work(AGENT)
    await Desk(world, ManualClock(), name="worker-2", dead=frozenset({"worker-1"})).work(AGENT)
    return world


async def test_a_worker_that_is_killed_is_seen_to_be_lost_and_what_it_finished_to_be_saved() -> None:
    world = await _killed(Spot(Point.AFTER_OUTCOME, "keyed"))
    picture = await picture_of(Session(world, "s-1", ManualClock()))
    (turn,) = picture.timeline.turns
    assert [(one.worker, one.ended) for one in turn.attempts] == [
        ("worker-1", "lost"),
        ("worker-2", "settled"),
    ]
    assert (turn.status, turn.saved.takeovers, turn.saved.model_calls, turn.saved.tool_calls) == (
        "done",
        1,
        1,
        1,
    )
    calls = [call for lane in turn.lanes for call in lane.calls]
    assert [(one.kind, one.settled_in - turn.attempts[0].attempt) for one in calls] == [
        ("model", 0),
        ("tool", 0),
        ("model", 1),
    ]


async def test_a_call_that_was_cut_off_is_seen_to_be_tried_twice() -> None:
    world = await _killed(Spot(Point.IN_EFFECT, "keyed"))
    picture = await picture_of(Session(world, "s-1", ManualClock()))
    (turn,) = picture.timeline.turns
    cut = turn.lanes[0].calls[1]
    assert [one.attempt for one in cut.tries] == [one.attempt for one in turn.attempts]
    assert (turn.saved.model_calls, turn.saved.tool_calls) == (1, 0)


async def test_what_a_log_takes_up_is_what_the_world_holds_of_it() -> None:
    world = await _killed(Spot(Point.AFTER_OUTCOME, "keyed"))
    picture = await picture_of(Session(world, "s-1", ManualClock()))
    commits = await world.commits("s-1")
    assert picture.log.bytes == sum(len(one.body) for one in commits)
    assert picture.log.commits == len(commits) == int(picture.timeline.cursor.split(".")[0])
    assert picture.by_turn.keys() == {1}
    assert 0 < picture.by_turn[1].commits < picture.log.commits  # the first commit opened the session


async def test_a_session_without_a_log_has_no_picture() -> None:
    world = MemoryWorld(MemoryStore(ManualClock()))
    with pytest.raises(SessionUnknown):
        await picture_of(Session(world, "nobody", ManualClock()))


async def test_a_session_that_was_only_opened_has_a_picture_without_turns() -> None:
    world = MemoryWorld(MemoryStore(ManualClock()))
    session = await Session.open(world, "s-1", agent=AGENT)
    picture = await picture_of(session)
    assert (picture.timeline.turns, picture.by_turn, picture.log.commits) == ((), {}, 1)
    assert picture.log != LogCost()
