"""The refund example, killed at every point of its tool under each policy: the ledger shows one refund, always."""

import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from examples.refund import Ledger, approving_of, support_of
from outlast.adapter import Agent
from outlast.clock import ManualClock
from outlast.gate import Gate
from outlast.opening import open_world
from outlast.records import CallOutcome, Decided, InputDropped
from outlast.records.kinds import OnDoubt, Policy
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.world import World
from tests.examples.clerk import ORDER, Clerk
from tests.unit.engine_desk import Desk, records

DAY_S = 86_400.0
MANNERS: Sequence[tuple[Policy, OnDoubt]] = [
    ("never", "tell"),
    ("never", "ask"),
    ("verify", "tell"),
    ("verify", "ask"),
    ("keyed", "tell"),
    ("safe", "tell"),
]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(f"sqlite:{tmp_path / 'world.db'}") as opened:
        yield opened


async def life(
    world: World, agent: Agent, name: str, *, death: Spot | None = None, dead: Sequence[str] = ()
) -> RecordingGate:
    """One worker, to its death or until nothing is left to do."""
    mortal, record = MortalWorld(world), RecordingGate()
    gate: Gate = record if death is None else DeathGate(death, mortal, inner=record)
    with suppress(Killed):
        await Desk(mortal, gate=gate, name=name, dead=frozenset(dead)).work(agent)
    return record


async def sent(world: World, agent: Agent, name: str) -> Session:
    session = await Session.open(world, name, agent=agent)
    await session.send("Refund order 81: 1250 cents", id="in-1")
    return session


async def tool_spots(world: World, agent: Agent, policy: Policy) -> list[Spot]:
    """Where the refund can be struck."""
    await sent(world, agent, "uncut")
    record = await life(world, agent, "uncut-worker")
    first = next(
        crossing.call for crossing in record.crossings if crossing.policy == policy and crossing.call
    )
    return [
        spot
        for spot, crossing in zip(spots(record.crossings), record.crossings, strict=True)
        if crossing.policy == policy and crossing.call in {0, first}
    ]


async def decide_twice(session: Session, ledger: Ledger) -> None:
    """A person looks into the ledger and says what is there, twice: the second time something else."""
    state = await session.state()
    assert state.turn is not None
    (call,) = [one.intent.call for one in state.turn.open_calls()]
    found = ledger.find(ORDER)
    if found is None:
        await session.decide(call, "run_again", by="ann")
    else:
        await session.decide(call, "done", found, by="ann")
    await session.decide(call, "run_again", by="bob")


@pytest.mark.parametrize(
    ("policy", "on_doubt"),
    [
        pytest.param(
            *manner, marks=() if manner in {("never", "ask"), ("verify", "tell")} else pytest.mark.crash
        )
        for manner in MANNERS
    ],
)
async def test_the_refund_is_made_once_wherever_the_worker_dies(
    world: World, tmp_path: Path, policy: Policy, on_doubt: OnDoubt
) -> None:
    uncut = Ledger(tmp_path / "uncut.db")
    where = await tool_spots(world, support_of(Clerk(), uncut, policy, on_doubt), policy)
    assert uncut.count(ORDER) == 1
    assert len(where) >= 6
    for at, spot in enumerate(where):
        ledger = Ledger(tmp_path / f"ledger-{at}.db")
        agent = support_of(Clerk(), ledger, policy, on_doubt)
        session = await sent(world, agent, f"s-{at}")
        first, second = f"w-{at}-1", f"w-{at}-2"
        await life(world, agent, first, death=spot)
        await life(world, agent, second, dead=[first])
        head = await session.head()
        if head.turn_open:
            assert (policy, on_doubt) == ("never", "ask"), f"{spot}: the turn ends without a person"
            assert "decision" in head.status
            await decide_twice(session, ledger)
            await life(world, agent, f"w-{at}-3", dead=[first])
            log = await records(world, f"s-{at}")
            assert [record.by for record in log if isinstance(record, Decided)] == ["ann"]
            assert [record for record in log if isinstance(record, InputDropped)], (
                "the second changed nothing"
            )
        outcome = await session.result(1)
        assert (outcome.status, outcome.value) == ("done", "Done: refunded 1250 cents of order 81."), str(
            spot
        )
        assert ledger.count(ORDER) == 1, str(spot)
        if policy in {"verify", "keyed", "safe"}:
            ended = {one.status for one in await records(world, f"s-{at}") if isinstance(one, CallOutcome)}
            assert ended == {"ok"}, f"{spot}: there was no reason for doubt"


async def test_the_approval_may_take_two_weeks_and_counts_once(world: World, ledger: Ledger) -> None:
    agent = approving_of(ledger)
    clock = ManualClock()
    session = await Session.open(world, "s-1", agent=agent, clock=clock)
    await session.send("81 1250", id="in-1")
    await Desk(world, clock).work(agent)
    assert (await session.head()).worker is None
    clock.turn(13 * DAY_S)
    await session.decide(1, value="yes", by="ann")
    await session.decide(1, value="no", by="bob")
    await Desk(world, clock).work(agent)
    assert str(await session.result(1)) == "refunded 1250 cents of order 81"
    assert ledger.count(ORDER) == 1


async def test_what_is_not_approved_is_not_refunded(world: World, ledger: Ledger) -> None:
    agent = approving_of(ledger)
    session = await Session.open(world, "s-1", agent=agent)
    await session.send("81 1250", id="in-1")
    await Desk(world).work(agent)
    await session.decide(1, value="the customer withdrew")
    await Desk(world).work(agent)
    assert str(await session.result(1)) == "Order 81 is not refunded: the customer withdrew."
    assert ledger.count(ORDER) == 0


def test_the_agents_of_the_example_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER", str(tmp_path / "own.db"))
    module = importlib.import_module("examples.refund")
    assert [module.support.name, module.approving.name] == ["support", "approving"]
