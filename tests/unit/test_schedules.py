"""Prompts that come by themselves: once for each time, whatever runs and whoever dies."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.engine.load import load_state
from outlast.errors import BadInput
from outlast.records import InputDropped, PromptQueued, Schedule, ScheduleCame, Scheduled, Set
from outlast.schedules import fault_of, first_due, prompt_id
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, agent_of, records, say

HOUR_S, DAY_S = 3600.0, 86_400.0
START_S = 1_800_000_000.0
"""Friday, 15 January 2027, 08:00 UTC."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_S)


@pytest.fixture
def agent() -> Agent:
    return agent_of([say("done")])


async def open_session(world: World, agent: Agent, clock: ManualClock) -> Session:
    return await Session.open(world, "s-1", agent=agent, clock=clock)


async def prompts(world: World) -> list[str]:
    """What was queued, with whose time it was."""
    return [record.input for record in await records(world) if isinstance(record, PromptQueued)]


async def skips(world: World) -> list[str]:
    return [record.skipped for record in await records(world) if isinstance(record, ScheduleCame)]


async def held_turn(io: IO, prompt: str) -> object:
    return await io.wait_for("go")


async def test_a_prompt_comes_once_at_its_time(world: World, agent: Agent, clock: ManualClock) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    at = datetime.fromtimestamp(START_S + 3 * DAY_S, UTC)
    assert await session.schedule("look again", at=at, id="later") == "later"
    await desk.work(agent)
    head = await session.head()
    assert (head.turn_open, head.worker, head.wake_at_s) == (False, None, at.timestamp())
    clock.turn(3 * DAY_S - 1)
    assert await desk.claim(agent) is None
    clock.turn(1)
    await desk.work(agent)
    assert (await session.result(1)).status == "done"
    assert await prompts(world) == ["later@2027-01-18T08:00:00.000000+00:00"]
    assert (await session.head()).wake_at_s is None
    assert not await session.schedules()


async def test_the_same_call_again_is_the_same_prompt_also_when_it_has_come(
    world: World, agent: Agent, clock: ManualClock
) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    for _ in range(3):
        await session.schedule("once", at=START_S + 60, id="once")
        await desk.work(agent)
        clock.turn(60)
        await desk.work(agent)
    assert len(await prompts(world)) == 1


async def test_a_time_that_has_passed_is_now(world: World, agent: Agent, clock: ManualClock) -> None:
    session = await open_session(world, agent, clock)
    await session.schedule("late", at=START_S - DAY_S)
    await Desk(world, clock).work(agent)
    assert (await session.result(1)).status == "done"


async def test_an_interval_keeps_its_beat(world: World, agent: Agent, clock: ManualClock) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("beat", every=timedelta(hours=1), id="beat")
    for _ in range(12):
        await desk.work(agent)
        clock.turn(HOUR_S / 4)
    assert (await session.state()).next_turn == 3
    clock.turn(10)
    await desk.work(agent)
    assert (await session.head()).wake_at_s == START_S + 4 * HOUR_S
    assert (await session.state()).next_turn == 4


async def test_cron_is_meant_where_its_zone_is(world: World, agent: Agent, clock: ManualClock) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("nightly", cron="30 2 * * 1-5", zone="Europe/Berlin", id="nightly")
    await desk.work(agent)
    [found] = await session.schedules()
    due = datetime.fromtimestamp(found.due_s, ZoneInfo("Europe/Berlin"))
    assert due.isoformat() == "2027-01-18T02:30:00+01:00"
    assert (found.id, found.cron, found.zone, found.seen) == (
        "nightly",
        "30 2 * * 1-5",
        "Europe/Berlin",
        True,
    )


def test_an_hour_that_is_left_out_or_shown_twice_comes_once() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    def after(*moment: int) -> str:
        sent_s = datetime(*moment, tzinfo=berlin).timestamp()
        wanted = Schedule("n", "x", cron="30 2 * * *", zone="Europe/Berlin", sent_at_s=sent_s)
        return datetime.fromtimestamp(first_due(wanted, sent_s), berlin).isoformat()

    assert after(2027, 3, 27, 12) == "2027-03-28T03:00:00+02:00"
    assert after(2027, 3, 28, 3) == "2027-03-29T02:30:00+02:00"
    assert after(2027, 10, 30, 12) == "2027-10-31T02:30:00+02:00"
    assert after(2027, 10, 31, 2, 45) == "2027-11-01T02:30:00+01:00"
    second = datetime(2027, 10, 31, 2, 10, tzinfo=berlin, fold=1).timestamp()
    wanted = Schedule("n", "x", cron="30 2 * * *", zone="Europe/Berlin", sent_at_s=second)
    assert first_due(wanted, second) > second


async def test_what_stands_already_goes_on_and_other_content_replaces_it(
    world: World, agent: Agent, clock: ManualClock
) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    for _ in range(3):
        await session.schedule("beat", every=HOUR_S, id="beat")
        await desk.work(agent)
        clock.turn(60)
    [found] = await session.schedules()
    assert found.due_s == START_S + HOUR_S
    assert [type(one) for one in await records(world) if isinstance(one, Scheduled | InputDropped)] == [
        Scheduled,
        InputDropped,
        InputDropped,
    ]
    await session.schedule("beat", every=2 * HOUR_S, id="beat")
    await desk.work(agent)
    [found] = await session.schedules()
    assert (found.due_s, found.every_s) == (START_S + 180 + 2 * HOUR_S, 2 * HOUR_S)


async def test_what_waits_in_the_inbox_is_listed_too(world: World, agent: Agent, clock: ManualClock) -> None:
    session = await open_session(world, agent, clock)
    await session.schedule("second", at=START_S + 60, id="b")
    await session.schedule("first", every=30.0, id="a")
    await session.schedule("gone", every=30.0, id="c")
    await session.unschedule("c")
    assert [(one.id, one.due_s, one.seen) for one in await session.schedules()] == [
        ("a", START_S + 30, False),
        ("b", START_S + 60, False),
    ]
    assert [one.prompt.value() for one in await session.schedules()] == ["first", "second"]


async def test_a_schedule_that_is_removed_comes_no_more(
    world: World, agent: Agent, clock: ManualClock
) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("beat", every=HOUR_S, id="beat")
    await desk.work(agent)
    await session.unschedule("beat")
    await session.unschedule("beat")
    await desk.work(agent)
    assert not await session.schedules()
    assert (await session.head()).wake_at_s is None
    clock.turn(DAY_S)
    assert await desk.claim(agent) is None


@pytest.mark.parametrize(("missed", "turns", "said"), [("once", 1, [""]), ("skip", 0, ["it was missed"])])
async def test_of_times_that_nobody_saw_the_newest_comes_or_none(
    world: World, agent: Agent, clock: ManualClock, missed: str, turns: int, said: list[str]
) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("nightly", cron="0 3 * * *", missed=missed, id="n")  # pyright: ignore[reportArgumentType]
    await desk.work(agent)
    clock.turn(5 * DAY_S)
    await desk.work(agent)
    state = await session.state()
    assert (state.next_turn - 1, await skips(world)) == (turns, said)
    [found] = await session.schedules()
    assert datetime.fromtimestamp(found.due_s, UTC).isoformat() == "2027-01-21T03:00:00+00:00"
    if turns:
        assert await prompts(world) == ["n@2027-01-20T03:00:00.000000+00:00"]
    clock.turn(19 * HOUR_S)
    await desk.work(agent)
    assert (await session.state()).next_turn == state.next_turn + 1


async def test_a_missed_time_that_is_hardly_late_comes_all_the_same(
    world: World, agent: Agent, clock: ManualClock
) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("beat", every=HOUR_S, missed="skip")
    await desk.work(agent)
    clock.turn(5 * HOUR_S + 30)
    await desk.work(agent)
    assert await skips(world) == [""]


@pytest.mark.parametrize(("overlap", "turns", "said"), [("queue", 2, [""]), ("skip", 1, ["a turn was open"])])
async def test_times_within_a_turn_wait_behind_it_one_at_most_or_are_left_out(
    world: World, clock: ManualClock, overlap: str, turns: int, said: list[str]
) -> None:
    agent = Agent("tester", Loop(held_turn))
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("beat", every=HOUR_S, overlap=overlap)  # pyright: ignore[reportArgumentType]
    await session.send("begin")
    await desk.work(agent)
    clock.turn(3.5 * HOUR_S)
    await session.signal("go")
    await session.signal("go")
    await desk.work(agent)
    state = await session.state()
    assert (state.next_turn - 1, await skips(world), state.turn) == (turns, said, None)
    [found] = await session.schedules()
    assert found.due_s == START_S + 4 * HOUR_S


async def test_a_turn_that_runs_past_several_times_queues_one_prompt(
    world: World, clock: ManualClock
) -> None:
    agent = Agent("tester", Loop(held_turn))
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("beat", every=HOUR_S)
    await session.send("begin")
    for _ in range(3):
        await desk.work(agent)
        clock.turn(HOUR_S)
        await session.signal("nothing")  # a look at the session
    await desk.work(agent)
    assert await skips(world) == ["", "one waits already", "one waits already"]
    assert len((await session.state()).queue) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"at": 1.0, "every": 2.0},
        {"every": 0.5},
        {"every": -5.0},
        {"cron": "0 3 * *"},
        {"cron": "0 0 30 2 *"},
        {"cron": "0 25 * * *"},
        {"cron": "0 3 * * *", "zone": "Mars/Base"},
        {"cron": "0 3 * * *", "zone": "../../etc/passwd"},
        {"every": 5.0, "zone": "Europe/Berlin"},
        {"at": datetime(2027, 1, 1)},  # noqa: DTZ001 - what is refused
        {"every": 5.0, "id": "x" * 101},
    ],
)
async def test_what_can_never_come_is_refused(
    world: World, agent: Agent, clock: ManualClock, wrong: dict[str, object]
) -> None:
    session = await open_session(world, agent, clock)
    with pytest.raises(BadInput):
        await session.schedule("x", **wrong)  # pyright: ignore[reportArgumentType] - what is refused
    assert not await world.inputs("s-1")


def test_every_schedule_that_can_be_kept_has_a_first_time() -> None:
    for wanted in (
        Schedule("a", "x", at_s=1.0),
        Schedule("b", "x", every_s=1.0),
        Schedule("c", "x", cron="@daily"),
        Schedule("d", "x", cron="0 0 29 2 *"),
    ):
        if not fault_of(wanted):
            assert first_due(wanted, START_S) > 0


async def beats(world: World, agent: Agent, clock: ManualClock, desk: Desk, times: int) -> None:
    """Work at each full hour."""
    for _ in range(times):
        await desk.work(agent)
        clock.turn(HOUR_S)


@pytest.mark.crash
async def test_one_prompt_for_each_time_wherever_a_worker_dies(
    world: World, agent: Agent, clock: ManualClock
) -> None:
    gate, session = RecordingGate(), await open_session(world, agent, clock)
    await session.schedule("beat", every=HOUR_S, id="beat")
    await beats(world, agent, clock, Desk(world, clock, gate=gate), 4)
    assert len(await prompts(world)) == 3
    for spot in spots(gate.crossings):
        await one_dies_at(spot, agent)


async def one_dies_at(spot: Spot, agent: Agent) -> None:
    clock = ManualClock(START_S)
    async with open_memory(MemoryStore(clock)) as world:
        session = await open_session(world, agent, clock)
        await session.schedule("beat", every=HOUR_S, id="beat")
        mortal = MortalWorld(world)
        with pytest.raises(Killed):
            await beats(mortal, agent, clock, Desk(mortal, clock, DeathGate(spot, mortal), name="dead"), 4)
        heir = Desk(world, clock, dead=frozenset({"dead"}))
        await beats(world, agent, clock, heir, 4)
        state, times = await load_state(world, "s-1"), Counter(await prompts(world))
        assert set(times.values()) == {1}, spot
        assert len(await skips(world)) == len(times), spot
        assert (state.next_turn, state.turn) == (len(times) + 1, None), spot
        passed = int((clock.now() - START_S) / HOUR_S) - 1
        assert len(times) == passed, spot


async def test_an_edit_of_an_idle_session_leaves_its_schedules_as_they_stand(
    world: World, agent: Agent, clock: ManualClock
) -> None:
    session, desk = await open_session(world, agent, clock), Desk(world, clock)
    await session.schedule("look", every=HOUR_S, id="hourly")
    await session.edit("plan", Set({"a": 1}))  # before a worker has taken it up
    await desk.work(agent)
    await session.edit("plan", Set(2, "/a"), id="edit-1")
    head = await session.head()
    assert (head.wake_at_s, head.turn_open, head.waiting_inputs) == (START_S + HOUR_S, False, 0)
    assert [one.id for one in await session.schedules()] == ["hourly"]
    clock.turn(HOUR_S)
    await desk.work(agent)
    assert len(await prompts(world)) == 1
    assert (await session.document("plan")).value == {"a": 2}


@pytest.mark.parametrize("how", ["send", "steer", "early", "schedule"])
async def test_no_prompt_of_the_same_id_as_the_open_turns_is_queued(
    world: World, clock: ManualClock, how: str
) -> None:
    holder = Agent("tester", Loop(held_turn))
    session, desk = await open_session(world, holder, clock), Desk(world, clock)
    its_id = prompt_id("later", START_S + DAY_S)
    if how == "early":
        await session.send("me first", id=its_id)
    await session.schedule("look again", at=START_S + DAY_S, id="later")
    await desk.work(holder)
    clock.turn(DAY_S)
    await desk.work(holder)
    if how == "schedule":
        await session.schedule("look anew", at=START_S + DAY_S, id="later")
    elif how != "early":
        await (session.send("me too", id=its_id) if how == "send" else session.steer("me too", id=its_id))
    await desk.work(holder)
    await session.signal("go", 1)
    await desk.work(holder)
    assert (await session.result(1)).value == 1
    head, state = await session.head(), await session.state()
    assert (head.turn_open, head.waiting_inputs, state.next_turn, state.schedules) == (False, 0, 2, {})
