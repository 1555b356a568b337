"""A fork has the past of its source and nothing else: what is finished stays so, what may have happened is left."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.engine.spacing import RECORD_WEIGHT, Spacing
from outlast.errors import (
    BadInput,
    BadSessionId,
    CommitUnknown,
    SessionErased,
    SessionExists,
    ToolError,
    TurnUnknown,
    WorldUnavailable,
)
from outlast.fold import records_of
from outlast.forking import LEFT, LEFT_UNBEGUN
from outlast.notify import Notice
from outlast.records import (
    CallIntent,
    CallOutcome,
    ErrandDone,
    Forked,
    NoticeTried,
    PromptRecalled,
    Set,
    TurnOpened,
    Unscheduled,
)
from outlast.session import Session
from outlast.testing.faults import AroundWorld
from outlast.tool import ToolIO, tool
from outlast.workspaces.local import local
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.virtual import virtual
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, agent_of, call, opened, records, say

T = TypeVar("T")

EFFECTS: list[tuple[str, str, str]] = []
"""Session, what was done, and its key."""


@pytest.fixture(autouse=True)
def _nothing_yet() -> None:
    EFFECTS.clear()


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with open_memory(MemoryStore(ManualClock())) as found:
        yield found


@tool(replay="never")
async def pay(io: ToolIO, order: int) -> str:
    """Pay."""
    EFFECTS.append((io.session, f"pay {order}", io.key))
    return f"paid {order} in {io.session}"


@tool(replay="safe")
async def look(io: ToolIO, order: int) -> str:
    """Look."""
    EFFECTS.append((io.session, f"look {order}", io.key))
    return f"order {order}"


async def shop(io: IO, prompt: str) -> object:
    """Pay twice, and look in between."""
    said: list[str] = [await io.uuid()]
    for order in (1, 2):
        await io.tool(look, order=order)
        try:
            said.append(await io.tool(pay, order=order))
        except ToolError as error:
            said.append(error.status if isinstance(error.status, str) else "")
    await io.docs.edit("bill", Set(said))
    return said


SHOP = Agent("tester", Loop(shop), tools=[pay, look])


def done_in(session: str) -> Counter[str]:
    return Counter(what for of, what, _ in EFFECTS if of == session)


async def commits_of(world: World, session: str, kind: type) -> list[int]:
    """Numbers of the commits that hold a record of this kind."""
    found: list[int] = []
    state = await (await Session.find(world, session)).state()
    for commit in await world.commits(session):
        from_here = await records_at(world, session, commit.header.seq)
        if any(isinstance(record, kind) for record in from_here):
            found.append(commit.header.seq)
    assert state.seq >= len(found)
    return found


async def records_at(world: World, session: str, seq: int) -> list[object]:
    (commit,) = await world.commits(session, seq - 1, 1)
    return list(records_of(session, commit))


async def test_a_fork_at_any_commit_goes_on_to_an_end_of_its_own(world: World) -> None:
    desk = Desk(world)
    source = await opened(world, SHOP)
    await desk.work(SHOP)
    head = (await source.head()).seq
    ended = await source.result(1)
    for at in range(1, head + 1):
        fork = await source.fork(at, id=f"fork-{at}")
        past = await fork.state()
        calls = {} if past.turn is None else past.turn.calls
        known = {call.intent.name: call for call in calls.values()}
        finished = {
            f"{call.intent.name} {order['order']}": call.outcome.status
            for call in calls.values()
            if call.outcome is not None and call.intent.kind == "tool"
            for order in [call.intent.arguments.value()]
        }
        await desk.work(SHOP)
        state = await fork.state()
        if past.turn is None and past.last is None:
            assert state.turn is None
            assert not done_in(fork.id)
            continue
        mine = done_in(fork.id)
        assert state.turn is None
        assert not any(finished.get(what) for what in mine), "what was finished or left was done again"
        if past.turn is not None:
            wanted = {f"{name} {order}" for name in ("pay", "look") for order in (1, 2)}
            assert mine == Counter(wanted - finished.keys())
            outcome = await fork.result(1)
            assert outcome.status == "done", outcome.error
            value = outcome.value
            assert value[0] == ended.value[0] or not known
            assert value[1] in {ended.value[1], f"paid 1 in {fork.id}", "cancelled"}
    keys = [key for _, what, key in EFFECTS if what.startswith("pay")]
    assert len(set(keys)) == len(keys)
    assert done_in("s-1") == Counter(["look 1", "pay 1", "look 2", "pay 2"])


async def test_an_open_call_whose_effect_may_have_happened_is_left_to_the_source(world: World) -> None:
    desk = Desk(world)
    agent = agent_of([call("pay", order=1), call("look", order=1)], pay, look)
    source = await opened(world, agent)
    await desk.work(agent)
    intents = [r.call for r in await records(world) if isinstance(r, CallIntent) and r.name == "pay"]
    (at, *_) = await commits_of(world, "s-1", CallIntent)
    fork = await source.fork(at)
    state = await fork.state()
    turn = state.turn
    assert turn is not None
    left = turn.calls[intents[0]].outcome
    assert left is not None
    assert (left.status, left.result.value()) == ("cancelled", LEFT)
    await desk.work(agent)
    assert done_in(fork.id) == Counter(["look 1"])


async def test_a_granted_call_that_had_not_begun_does_not_begin_in_the_fork(world: World) -> None:
    desk = Desk(world)
    agent = agent_of([say("", {"name": "pay", "arguments": {"order": 1}})], pay)
    source = await opened(world, agent)
    await desk.work(agent)
    granted = [r for r in await records(world) if isinstance(r, CallIntent) and r.granted]
    assert granted
    found = [
        s
        for s in await commits_of(world, "s-1", CallIntent)
        if granted[0] in await records_at(world, "s-1", s)
    ]
    fork = await source.fork(found[0])
    outcomes = [
        r for r in await records(world, fork.id) if isinstance(r, CallOutcome) and r.status == "cancelled"
    ]
    assert [one.result.value() for one in outcomes] == [LEFT_UNBEGUN]


async def test_the_source_is_as_it_was(world: World) -> None:
    desk = Desk(world)
    source = await opened(world, SHOP)
    await desk.work(SHOP)
    before = (await source.head(), await world.commits("s-1"))
    await source.fork(before_turn=1)
    assert (await source.head(), await world.commits("s-1")) == before


async def test_the_same_fork_again_is_the_same_and_another_under_its_id_is_refused(world: World) -> None:
    desk = Desk(world)
    source = await opened(world, SHOP)
    await desk.work(SHOP)
    fork = await source.fork(4, id="f")
    seq = (await fork.head()).seq
    await source.fork(4, id="f")
    await source.fork(id="f")
    assert (await fork.head()).seq == seq
    with pytest.raises(SessionExists, match="at commit 4"):
        await source.fork(3, id="f")
    other = await opened(world, SHOP, "s-2")
    with pytest.raises(SessionExists, match="fork of s-1"):
        await other.fork(id="f")
    with pytest.raises(SessionExists, match="no fork"):
        await other.fork(id="s-1")
    with pytest.raises(SessionExists, match="works in"):
        await source.fork(4, id="f", workspace=local("/tmp"))
    placed = [await source.fork(4, id="g", workspace=virtual()) for _ in range(2)]
    with pytest.raises(SessionExists, match="works in"):  # at a path of the same name
        await source.fork(4, id=placed[0].id, workspace=sandbox())
    await world.erase("f")
    with pytest.raises(SessionErased):
        await source.fork(4, id="f")


async def test_what_cannot_be_forked_is_said(world: World) -> None:
    source = await opened(world, SHOP)
    for at in (0, 2, 99):
        with pytest.raises(CommitUnknown):
            await source.fork(at)
    with pytest.raises(TurnUnknown):
        await source.fork(before_turn=1)
    with pytest.raises(BadInput):
        await source.fork(1, before_turn=1)
    with pytest.raises(BadSessionId):
        await source.fork(1, id="No")


async def test_a_fork_before_a_turn_waits_for_another_prompt(world: World) -> None:
    desk = Desk(world)
    source = await opened(world, SHOP, "s-1", "first", "second", "third")
    await desk.work(SHOP)
    fork = await source.fork(before_turn=2)
    await desk.work(SHOP)
    state = await fork.state()
    assert (state.turn, state.next_turn, state.queue) == (None, 2, [])
    assert not done_in(fork.id)
    turn = await fork.send("other", id="in-other")
    await desk.work(SHOP)
    assert (await turn.result()).value[1] == f"paid 1 in {fork.id}"


async def test_prompts_schedules_notices_and_errands_are_the_source_s_alone() -> None:
    class Deaf:
        async def tell(self, notice: Notice) -> str:
            return "no line"

    clock = ManualClock()
    async with open_memory(MemoryStore(clock)) as world:
        desk = Desk(world, clock, notifier=Deaf())

        async def wait(io: IO, prompt: str) -> object:
            return await io.wait_for("go")

        agent = Agent("tester", Loop(wait))
        source = await Session.open(world, "s-1", agent=agent, clock=clock)
        await source.schedule("nightly", every=60.0, id="nightly")
        for number in range(3):
            await source.send(f"prompt {number}", id=f"in-{number}")
        await source.signal("other", 1, id="sig-1")
        await desk.work(agent)
        fork = await source.fork()
        kinds = [type(record) for record in (await records(world, fork.id))[-20:]]
        assert {Forked, PromptRecalled, Unscheduled, NoticeTried} <= set(kinds)
        assert ErrandDone not in kinds
        state = await fork.state()
        assert (state.queue, state.schedules, state.untold, state.errands) == ([], {}, [], [])
        assert [signal.name for signal in state.signals] == ["other"]
        assert state.opened is not None
        assert state.opened.parent is None
        left = await source.state()
        assert len(left.queue) == 2
        assert left.schedules
        # Both wait, each for a word of its own.
        await desk.work(agent)
        await fork.signal("go", "the fork's")
        await desk.work(agent)
        assert (await fork.result(1)).value == "the fork's"
        assert (await source.state()).turn is not None
        await source.signal("go", "the source's")
        await desk.work(agent)
        assert (await source.result(1)).value == "the source's"


async def test_a_child_of_the_source_is_neither_waited_for_nor_recalled_by_the_fork(world: World) -> None:
    async def ask(io: IO, prompt: str) -> object:
        return await io.wait_for("go")

    async def parent(io: IO, prompt: str) -> object:
        try:
            return await io.spawn(Agent("child", Loop(ask)), "do it")
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            return f"{type(error).__name__}: {error}"

    agents = Agent("tester", Loop(parent)), Agent("child", Loop(ask))
    desk = Desk(world)
    source = await opened(world, agents[0])
    for agent in agents:
        await desk.work(agent)
    fork = await source.fork()
    for agent in agents:
        await desk.work(agent)
    assert "ChildFailed" in (await fork.result(1)).value
    (child,) = [head.session for head in (await world.list()).sessions if head.agent == "child"]
    await (await Session.find(world, child)).signal("go", "well")
    for agent in agents[::-1]:
        await desk.work(agent)
    assert (await source.result(1)).value == "well"


async def test_a_fork_has_places_of_its_own_and_the_harness_s_name_of_its_past(world: World) -> None:
    source = await opened(world, SHOP)
    fork = await source.fork(1)
    deeper = await fork.fork()
    other = await source.fork(1, workspace=local("/tmp", host="b"))
    states = [await session.state() for session in (source, fork, deeper, other)]
    openings = [state.opened for state in states]
    assert len({one.folder for one in openings if one}) == 4
    assert {one.session for one in openings if one} == {"s-1"}
    assert [one.cwd for one in openings if one] == ["", "", "", "/tmp"]
    assert (await other.head()).placement == "host:b"
    forked = states[2].forked
    assert forked is not None
    assert (forked.source, forked.at, forked.session) == (fork.id, 2, deeper.id)


async def test_a_prompt_that_the_past_took_is_not_taken_again(world: World) -> None:
    desk = Desk(world)
    source = await opened(world, SHOP)
    await desk.work(SHOP)
    (at,) = await commits_of(world, "s-1", TurnOpened)
    fork = await source.fork(at)
    await fork.send("go", id="in-1")
    await desk.work(SHOP)
    assert (await fork.state()).next_turn == 2


@pytest.mark.parametrize("lands", [False, True])
async def test_a_fork_whose_answer_was_lost_is_asked_for_again_and_is_one(world: World, lands: bool) -> None:  # noqa: FBT001 - a case
    class Losing(AroundWorld):
        async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
            if operation != "fork" or self.left == 0:
                return await ask()
            self.left -= 1
            if lands:
                await ask()
            raise WorldUnavailable(world="this", reason="the answer is lost")

        left = 1

    desk = Desk(world)
    source = await opened(world, SHOP)
    await desk.work(SHOP)
    far = Session(Losing(world), "s-1", ManualClock())
    with pytest.raises(WorldUnavailable):
        await far.fork(4, id="f")
    fork = await far.fork(4, id="f")
    assert (await fork.head()).seq == 5
    forked = [one for one in await records(world, "f") if isinstance(one, Forked)]
    assert len(forked) == 1
    assert (await source.fork(4, id="f")).id == "f"


async def test_a_fork_of_a_long_turn_goes_on_from_snapshots_and_their_parts(world: World) -> None:
    often = partial(Spacing, 20 * RECORD_WEIGHT, worth=2, part=2)

    async def walk(io: IO, prompt: str) -> object:
        said = [await io.tool(look, order=number) for number in range(60)]
        return [len(said), await io.wait_for("go")]

    agent = Agent("tester", Loop(walk), tools=[look])
    desk = Desk(world, spacing=often)
    source = await opened(world, agent)
    await desk.work(agent)
    head = await source.head()
    assert head.snapshot_seq
    kept = (await source.state()).kept
    assert kept.calls, "no snapshot left anything to parts"
    EFFECTS.clear()
    forks = [await source.fork(at) for at in (head.seq, head.snapshot_seq, head.snapshot_seq - 1)]
    await world.erase("s-1")
    for fork in forks:
        await fork.signal("go", fork.id)
    await desk.work(agent)
    for fork in forks:
        assert (await fork.result(1)).value == [60, fork.id]
        assert sum(done_in(fork.id).values()) < 60
    assert not done_in(forks[0].id)
