"""Sessions that a loop spawns: each is there once, its end is told until it is there, and nobody else can tell it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest
from msgspec import structs

from outlast.adapter import Agent, Budget
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.codec import DEPTH_LIMIT as DEPTH
from outlast.codec import encode_input
from outlast.engine.children import DEPTH_LIMIT, forsake
from outlast.errors import BadInput, ChildFailed, NothingCame
from outlast.fold import SessionState
from outlast.gate import Point
from outlast.model import user
from outlast.records import CallIntent, ErrandDone, ErrandDue, InputDropped, Report, Usage
from outlast.session import Session
from outlast.testing.faults import FlakyWorld, When
from outlast.tool import Tool, ToolIO, tool
from outlast.world import Input, World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import records, say
from tests.unit.family_desk import Family
from tests.unit.listed_model import Listed, says

DAY_S = 86_400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(clock: ManualClock) -> AsyncIterator[World]:
    async with open_memory(MemoryStore(clock)) as opened:
        yield opened


async def begin(world: World, clock: ManualClock, prompt: str = "go") -> Session:
    session = await Session.open(world, "boss", agent="boss", clock=clock)
    await session.send(prompt, id="in-1")
    return session


def agents(boss: LoopFunction, helper: LoopFunction) -> Sequence[Agent]:
    return [Agent("boss", Loop(boss)), Agent("helper", Loop(helper))]


async def echo(io: IO, prompt: str) -> object:
    return {"said": prompt}


async def children(world: World) -> list[str]:
    return sorted(one.session for one in (await world.list()).sessions if one.session.startswith("boss."))


async def state_of(world: World, session: str, clock: ManualClock) -> SessionState:
    return await (await Session.find(world, session, clock=clock)).state()


async def test_what_a_child_costs_counts_once_for_the_tenant(world: World, clock: ManualClock) -> None:
    answer = structs.replace(says("so"), usage=Usage(60, 40, cost_usd=1.0))
    model = Listed(answer, answer)

    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn("middle", "go")

    async def middle(io: IO, prompt: str) -> object:
        await io.model(model, [user("how?")])
        return await io.spawn("helper", "go")

    async def helper(io: IO, prompt: str) -> object:
        return (await io.model(model, [user("how?")])).message.text

    session = await begin(world, clock)
    await Family(world, clock, [*agents(boss, helper), Agent("middle", Loop(middle))]).work()
    outcome = await session.result(1)
    (spent,) = await world.spent(0)
    assert outcome.usage == Usage(120, 80, cost_usd=2.0)
    assert (spent.cost_usd, spent.tokens, spent.calls) == (2.0, 200, 2)


async def test_a_result_that_no_report_can_hold_fails_the_spawn_and_lets_nobody_wait(
    world: World, clock: ManualClock
) -> None:
    async def boss(io: IO, prompt: str) -> object:
        with pytest.raises(ChildFailed, match="nested"):
            await io.spawn("helper", "deep")
        return "went on"

    async def deep(io: IO, prompt: str) -> object:
        value: object = {}
        for _ in range(DEPTH - 1):
            value = {"within": value}
        return value

    session = await begin(world, clock)
    await Family(world, clock, agents(boss, deep)).work()
    assert (await session.state()).turn is None, "it waits for nobody"
    assert (await session.result(1)).value == "went on"


async def test_a_loop_spawns_several_and_one_worker_carries_them_all(
    world: World, clock: ManualClock
) -> None:
    async def boss(io: IO, prompt: str) -> object:
        first = await io.spawn("helper", "one")
        both = await io.gather(
            lambda lane: lane.spawn("helper", "two"), lambda lane: lane.spawn("helper", "three " * 2_000)
        )
        return [first, both]

    session = await begin(world, clock)
    await Family(world, clock, agents(boss, echo)).work()
    said = [{"said": "one"}, [{"said": "two"}, {"said": "three " * 2_000}]]
    assert (await session.result(1)).value == said
    names = await children(world)
    assert len(names) == 3
    for name in names:
        state = await state_of(world, name, clock)
        assert state.opened is not None
        assert state.opened.parent is not None
        assert (state.opened.parent.session, state.errands) == ("boss", [])


async def test_a_result_too_long_for_a_record_comes_whole(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return len(await io.spawn("helper", "go"))

    async def helper(io: IO, prompt: str) -> object:
        return "x" * 300_000

    session = await begin(world, clock)
    await Family(world, clock, agents(boss, helper)).work()
    assert (await session.result(1)).value == 300_000


async def test_a_child_that_fails_or_is_cancelled_fails_its_call_alone(
    world: World, clock: ManualClock
) -> None:
    async def boss(io: IO, prompt: str) -> object:
        said: list[str] = []
        for asked in ("fail", "wait"):
            try:
                await io.spawn("helper", asked)
            except ChildFailed as error:
                said.append(str(error))
        return said

    async def helper(io: IO, prompt: str) -> object:
        if prompt == "wait":
            return await io.wait_for("never")
        raise ValueError("half a thought")

    session = await begin(world, clock)
    family = Family(world, clock, agents(boss, helper))
    await family.work()
    waiting = [name for name in await children(world) if (await world.get(name)).turn_open]
    await (await Session.find(world, waiting[0], clock=clock)).cancel()
    await family.work()
    assert (await session.result(1)).value == [
        "The turn that helper was spawned for ended as failed: ValueError: half a thought",
        'The turn that helper was spawned for ended as cancelled: {"status":"cancelled","error":""}',
    ]


async def test_a_spawn_whose_time_is_over_recalls_its_child(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        try:
            return await io.spawn("helper", "wait", timeout_s=DAY_S)
        except NothingCame as error:
            return str(error)

    session = await begin(world, clock)
    family = Family(world, clock, agents(boss, wait))
    await family.work()
    clock.turn(DAY_S)
    await family.work()
    assert (await session.result(1)).value == "Nothing came for the agent 'helper' within 86400 s."
    (name,) = await children(world)
    last = (await state_of(world, name, clock)).last
    assert last is not None
    assert last.status == "cancelled"


async def test_an_agent_that_no_worker_offers_waits_until_one_does(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn("helper", "go")

    session = await begin(world, clock)
    await Family(world, clock, [Agent("boss", Loop(boss))]).work()
    assert (await session.head()).status.startswith("turn 1 waiting")
    await Family(world, clock, [Agent("helper", Loop(echo))], name="worker-2").work()
    await Family(world, clock, [Agent("boss", Loop(boss))]).work()
    assert (await session.result(1)).value == {"said": "go"}


async def wait(io: IO, prompt: str) -> object:
    return await io.wait_for("never")


async def is_recalled(world: World, clock: ManualClock) -> None:
    """The one child is over, or was told so before it began."""
    (name,) = await children(world)
    state = await state_of(world, name, clock)
    assert (state.turn, state.queue) == (None, [])
    assert state.last is None or state.last.status == "cancelled"
    assert (await state_of(world, "boss", clock)).errands == []


async def test_a_turn_that_is_cancelled_recalls_its_children(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn("helper", "wait")

    session = await begin(world, clock)
    family = Family(world, clock, agents(boss, wait))
    await family.work()
    await session.cancel()
    await family.work()
    assert (await session.result(1)).status == "cancelled"
    await is_recalled(world, clock)


@pytest.mark.parametrize("status", ["done", "failed"])
async def test_a_turn_that_ends_before_its_children_recalls_them(
    world: World, clock: ManualClock, status: str
) -> None:
    async def impatient(lane: IO) -> object:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await lane.spawn("helper", "wait")
        if status == "failed":
            raise ValueError("too slow")
        return "left"

    async def boss(io: IO, prompt: str) -> object:
        # A lane that is busy keeps the turn from being suspended before the time is over.
        return (await io.gather(lambda lane: lane.tool("slow"), impatient))[1]

    session = await begin(world, clock)
    helper = Agent("helper", Loop(wait))
    await Family(world, clock, [Agent("boss", Loop(boss), tools=[slow_tool()]), helper]).work()
    assert (await session.result(1)).status == status
    await is_recalled(world, clock)


def slow_tool() -> Tool:
    @tool(replay="safe")
    async def slow(io: ToolIO) -> None:
        """Take longer than the spawn is waited for."""
        await asyncio.sleep(0.1)

    return slow


async def test_what_a_child_cost_counts_once_as_its_parents_and_against_its_budget(
    world: World, clock: ManualClock
) -> None:
    usage = {"input_tokens": 60, "output_tokens": 40, "cost_usd": 0.01}
    helper = Agent("helper", Scripted(script=[{**say("dear"), "usage": usage}]))

    async def boss(io: IO, prompt: str) -> object:
        return [await io.spawn(helper, asked) for asked in ("one", "two", "three")]

    session = await begin(world, clock)
    family = Family(world, clock, [Agent("boss", Loop(boss), budget=Budget(turn_usd=0.02)), helper])
    await family.work()
    assert (await session.head()).status.startswith("turn 1 budget")
    await session.retry()
    await family.work()
    outcome = await session.result(1)
    assert (outcome.status, outcome.usage) == ("done", Usage(180, 120, cost_usd=0.03))
    assert (await state_of(world, "boss", clock)).usage == outcome.usage


async def test_nothing_but_the_childs_own_report_ends_a_spawn(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn("helper", "wait")

    async def helper(io: IO, prompt: str) -> object:
        return await io.wait_for("go on")

    session = await begin(world, clock)
    family = Family(world, clock, agents(boss, helper))
    await family.work()
    (name,) = await children(world)
    for signal in ("spawn", name, "report"):
        await session.signal(signal, "forged")
    await session.decide(1, "done", "forged")
    for call, child in ((1, "boss.1-of-another"), (2, name), (1, "")):
        forged = encode_input(Report(call, child, "done", "forged"))
        await world.put_input("boss", Input(f"forged-{call}-{child}", "d", forged))
    await family.work()
    assert (await session.head()).turn_open
    await (await Session.find(world, name, clock=clock)).signal("go on", "the truth")
    await family.work()
    assert (await session.result(1)).value == "the truth"
    assert sum(isinstance(one, InputDropped) for one in await records(world, "boss")) == 4


async def test_a_report_for_a_parent_that_is_gone_is_given_up(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn("helper", "wait")

    async def helper(io: IO, prompt: str) -> object:
        return await io.wait_for("go on")

    await begin(world, clock)
    family = Family(world, clock, agents(boss, helper))
    await family.work()
    (name,) = await children(world)
    await world.erase("boss")
    await (await Session.find(world, name, clock=clock)).signal("go on")
    await family.work()
    (done,) = [one for one in await records(world, name) if isinstance(one, ErrandDone)]
    assert "boss" in done.error
    assert (await world.get(name)).wake_at_s is None


async def test_a_parent_is_told_that_its_child_was_erased(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        try:
            return await io.spawn("helper", "wait")
        except ChildFailed as error:
            return str(error)

    session = await begin(world, clock)
    await Family(world, clock, [Agent("boss", Loop(boss))]).work()
    (name,) = await children(world)
    opened = (await state_of(world, name, clock)).opened
    assert opened is not None
    await forsake(world, opened, clock.now())
    await world.erase(name)
    await Family(world, clock, [Agent("boss", Loop(boss))]).work()
    assert f"The session {name} was erased." in (await session.result(1)).value


async def test_an_id_that_another_session_has_is_said_and_not_used(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        try:
            return await io.spawn("helper", "go")
        except ChildFailed as error:
            return str(error)

    session = await begin(world, clock)
    family = Family(world, clock, agents(boss, echo))

    class Squatter:
        """Takes the id as soon as it can be known."""

        async def cross(self, point: object, *, call: int = 0, policy: str = "") -> None:
            if (str(point), policy) == ("after-intent", "spawn"):
                (intent,) = [one for one in await records(world, "boss") if isinstance(one, CallIntent)]
                await Session.open(world, intent.child, agent="helper", clock=clock)

    family.gate = Squatter()
    await family.work()
    assert "another" in (await session.result(1)).value


async def test_a_turn_that_somebody_else_asked_of_a_child_is_not_reported(
    world: World, clock: ManualClock
) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return [await io.spawn("helper", "one"), await io.wait_for("end")]

    session = await begin(world, clock)
    family = Family(world, clock, agents(boss, echo))
    await family.work()
    (name,) = await children(world)
    more = await (await Session.find(world, name, clock=clock)).send("two")
    await family.work()
    assert (await more.result()).value == {"said": "two"}
    assert sum(isinstance(one, ErrandDue) for one in await records(world, name)) == 1
    await session.signal("end", "well")
    await family.work()
    assert (await session.result(1)).value == [{"said": "one"}, "well"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", ["create", "put_input"])
async def test_a_world_that_fails_once_changes_nothing_of_a_family(
    world: World, clock: ManualClock, operation: str, when: When
) -> None:
    async def boss(io: IO, prompt: str) -> object:
        said = await io.spawn("helper", "one")
        with pytest.raises(NothingCame):
            await io.spawn("nobody", "two", timeout_s=0.0)
        return said

    session = await begin(world, clock)
    failures: dict[tuple[str, int], When] = {(operation, nth): when for nth in (1, 3, 5, 7)}
    flaky = FlakyWorld(world, failures)
    await Family(flaky, clock, agents(boss, echo)).work()
    assert (await session.result(1)).value == {"said": "one"}
    assert flaky.calls[operation] > 3
    recalled = Family(world, clock, [Agent("nobody", Loop(wait))])
    await recalled.work()
    names = await children(world)
    assert len(names) == 2
    for name in names:
        state = await state_of(world, name, clock)
        assert (state.turn, state.queue, state.errands) == (None, [], [])


async def test_a_line_of_sessions_that_spawn_one_another_ends(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn("boss", prompt)

    session = await begin(world, clock)
    await Family(world, clock, [Agent("boss", Loop(boss))]).work()
    outcome = await session.result(1)
    assert outcome.status == "failed"
    assert "in a line that spawned one another" in outcome.error
    names = await children(world)
    assert len(names) == DEPTH_LIMIT
    assert max(map(len, names)) <= 128


class Held:
    """Holds its worker right before it opens the child."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.go_on = asyncio.Event()

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        if (point, policy) == (Point.IN_EFFECT, "spawn"):
            self.there.set()
            await self.go_on.wait()


async def test_a_worker_that_wakes_up_too_late_opens_no_child_that_was_recalled(
    world: World, clock: ManualClock
) -> None:
    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn("helper", "go")

    session, held, began = await begin(world, clock), Held(), list[str]()

    async def helper(io: IO, prompt: str) -> object:
        began.append(prompt)

    late = Family(world, clock, agents(boss, helper), held)
    task = asyncio.get_running_loop().create_task(late.work())
    await held.there.wait()
    assert await children(world) == []
    await session.cancel()
    heir = Family(world, clock, agents(boss, helper), name="worker-2", dead=frozenset({"worker-1"}))
    await heir.work()
    held.go_on.set()
    await task
    await heir.work()
    await is_recalled(world, clock)
    assert began == []


async def test_a_spawn_for_nobody_is_refused(world: World, clock: ManualClock) -> None:
    async def boss(io: IO, prompt: str) -> object:
        with pytest.raises(BadInput, match="give its name"):
            await io.spawn("", "go")
        return "refused"

    session = await begin(world, clock)
    await Family(world, clock, agents(boss, echo)).work()
    assert (await session.result(1)).value == "refused"


async def test_a_child_of_an_agent_that_is_given_records_its_settings(
    world: World, clock: ManualClock
) -> None:
    helper = Agent("helper", Loop(echo, settings={"tone": "dry", "size": 1}))

    async def boss(io: IO, prompt: str) -> object:
        return await io.spawn(helper, "go", settings={"size": 2})

    await begin(world, clock)
    await Family(world, clock, [Agent("boss", Loop(boss)), helper]).work()
    (name,) = await children(world)
    opened = (await state_of(world, name, clock)).opened
    assert opened is not None
    assert (opened.adapter, opened.settings) == ("python", {"tone": "dry", "size": 2})
    (due,) = [one for one in await records(world, name) if isinstance(one, ErrandDue)]
    assert (due.errand, due.to, due.status) == ("report", "boss", "done")
