"""A call in doubt is made good by another: workers die in the call, in its compensation, and in what follows."""

import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, get_args

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import Scripted
from outlast.clock import ManualClock
from outlast.errors import ToolError
from outlast.fold import fold
from outlast.gate import Gate
from outlast.records import CallIntent, CallOutcome, Decided, TurnParked
from outlast.records.kinds import OnDoubt, Policy
from outlast.recovery import IN_DOUBT
from outlast.session import Session
from outlast.testing.faults import Killed, MortalWorld, RecordingGate
from outlast.tool import Done, NotDone, Tool, ToolFailed, ToolIO, Unsure, Verdict, tool
from outlast.world import World
from outlast.worlds.memory import MemoryStore, open_memory
from tests.crash.stage import Countdown
from tests.unit.engine_desk import Desk, call, records, say

Doubtful = Literal["never", "verify", "keyed"]
"""A policy under which a call can be in doubt: `verify` never knows, and the key of `keyed` is honoured for no time."""
Kind = Literal["loop", "granted"]
"""Who asks for the calls: a loop in two lanes, or the answer of a model whose tools the worker runs."""
UNDONE: Sequence[Policy | Literal["fails"]] = ("never", "verify", "keyed", "safe", "fails")
DRAWN = 4
"""Pairs of deaths of each scene that the fast set draws."""


@dataclass(frozen=True)
class Scene:
    """Two calls, each with a compensation of this policy."""

    kind: Kind = "loop"
    doubtful: Doubtful = "never"
    undo: Policy | Literal["fails"] = "never"
    on_doubt: OnDoubt = "tell"


SCENES = [
    *(Scene(undo=undo, on_doubt=on_doubt) for undo in UNDONE for on_doubt in get_args(OnDoubt)),
    *(Scene("granted", undo=undo) for undo in UNDONE),
    *(Scene("granted", doubtful, "keyed", "ask") for doubtful in get_args(Doubtful)),
    Scene(doubtful="verify", undo="verify"),
    Scene(doubtful="keyed", undo="keyed"),
]
FEW = [
    Scene(),
    Scene(undo="fails", on_doubt="ask"),
    Scene("granted", undo="verify"),
    Scene("granted", "verify", "keyed", "ask"),
    Scene(doubtful="keyed", undo="keyed"),
]
"""Those of `make test`; the fast set has the first two."""


@dataclass
class Bank:
    """The outside, which nothing dies with."""

    paid: Counter[str] = field(default_factory=Counter[str])
    undone: Counter[str] = field(default_factory=Counter[str])
    """By what was to be undone; the same key twice is once."""
    keys: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    wrongs: list[str] = field(default_factory=list[str])

    def pay(self, io: ToolIO, tag: str) -> str:
        if self.undone[tag]:
            self.wrongs.append(f"{tag} was paid after its compensation had begun")
        self.paid[tag] += 1
        self.keys[f"paid {tag}"] = {io.key}
        return f"paid {tag}"

    def undo(self, io: ToolIO, tag: str, policy: str) -> str:
        if {io.compensates} != self.keys.get(f"paid {tag}", {io.compensates}):
            self.wrongs.append(f"the compensation of {tag} does not know its key")
        seen = self.keys.setdefault(f"undone {tag}", set())
        if policy != "keyed" or io.key not in seen:
            self.undone[tag] += 1
        seen.add(io.key)
        return f"took back {tag}"


def tools_of(scene: Scene, bank: Bank, world: MortalWorld) -> list[Tool]:
    async def landed(io: ToolIO, tag: str) -> Verdict:
        world.check()
        return Done(f"took back {tag}") if bank.undone[tag] else NotDone()

    async def who_knows(io: ToolIO, tag: str, cents: int) -> Verdict:
        return Unsure()

    async def undo(io: ToolIO, tag: str) -> str:
        """Take a payment back."""
        world.check()
        if scene.undo == "fails":
            raise ToolFailed("the bank is closed")
        return bank.undo(io, tag, scene.undo)

    async def pay(io: ToolIO, tag: str, cents: int = 5) -> str:
        """Pay."""
        world.check()
        return bank.pay(io, tag)

    policy: Policy = "never" if scene.undo == "fails" else scene.undo
    undoing = tool(replay=policy, verify=landed if policy == "verify" else None)(undo)
    verify = who_knows if scene.doubtful == "verify" else None
    return [
        tool(
            replay=scene.doubtful,
            verify=verify,
            key_ttl_s=1e-6 if scene.doubtful == "keyed" else 0.0,
            on_doubt=scene.on_doubt,
            compensate=undoing,
        )(pay)
    ]


async def pays(io: IO, prompt: str) -> list[Any]:
    """The loop."""

    async def once(lane: IO, tag: str) -> str:
        try:
            return str(await lane.tool("pay", tag=tag, cents=5))
        except ToolError as error:
            return str(error.facts["said"])

    return await io.gather(lambda lane: once(lane, "a"), lambda lane: once(lane, "b"))


def agent_of(scene: Scene, bank: Bank, world: MortalWorld) -> Agent:
    script = [say("I pay", call("pay", tag="a"), call("pay", tag="b")), say("all is paid")]
    adapter = Loop(pays) if scene.kind == "loop" else Scripted(script=script)
    return Agent("tester", adapter, tools=tools_of(scene, bank, world))


class Play:
    """One session, carried through the deaths of its workers."""

    def __init__(self, world: World, scene: Scene, name: str) -> None:
        self.world = world
        self.scene = scene
        self.name = name
        self.bank = Bank()
        self._clock = ManualClock()
        self.crossings = 0
        """How often the last life crossed a point."""
        self._lives: list[str] = []

    async def run(self, *deaths: int) -> "Play":
        agent = agent_of(self.scene, self.bank, MortalWorld(self.world))
        session = await Session.open(self.world, self.name, agent=agent)
        await session.send("go", id="in-1")
        left = list(deaths)
        for _ in range(12):
            await self._life(left.pop(0) if left else None)
            state = await session.state()
            if state.last is not None:
                await self.check(session)
                return self
            if state.turn is not None and state.turn.parked is not None:
                await self._decide(session)
        raise AssertionError(f"the turn does not end: {(await session.head()).status}")

    async def _life(self, death: int | None) -> None:
        name = f"{self.name}-{len(self._lives)}"
        mortal, record = MortalWorld(self.world), RecordingGate()
        gate: Gate = record if death is None else Countdown(death, mortal)
        with suppress(Killed):
            desk = Desk(mortal, self._clock, gate, name, frozenset(self._lives))
            await desk.work(agent_of(self.scene, self.bank, mortal))
        self._clock.turn(1.0)
        self._lives.append(name)
        self.crossings = len(record.crossings)

    async def _decide(self, session: Session) -> None:
        """A person says it twice; what is said later is void."""
        state = await session.state()
        assert state.turn is not None
        assert state.turn.parked is not None
        evidence = state.turn.parked.evidence
        for number in evidence["in_doubt"]:
            failed = any(one.intent.compensates == number for one in state.turn.calls.values())
            offered = evidence.get("compensate", {}).get(str(number))
            assert offered == "undo"
            await session.decide(number, "failed" if failed else "compensate", "a person gave up", by="ann")
            await session.decide(number, "run_again", by="bob")

    async def check(self, session: Session) -> None:
        fold(self.name, await self.world.commits(self.name))
        log = await records(self.world, self.name)
        assert not self.bank.wrongs
        outcomes = {one.call: one for one in log if isinstance(one, CallOutcome)}
        intents = [one for one in log if isinstance(one, CallIntent) and one.kind == "tool"]
        assert {one.by for one in log if isinstance(one, Decided)} <= {"ann"}
        told = str((await session.result(1)).value)
        for intent in intents:
            if not intent.compensates:
                mine = [outcomes[one.call] for one in intents if one.compensates == intent.call]
                self._check_call(intent, outcomes[intent.call], mine, told)
        parked = [one for one in log if isinstance(one, TurnParked)]
        assert bool(parked) <= (self.scene.on_doubt == "ask"), "nobody was to be asked"

    def _check_call(
        self, intent: CallIntent, outcome: CallOutcome, mine: Sequence[CallOutcome], told: str
    ) -> None:
        tag, undo = intent.arguments.value()["tag"], self.scene.undo
        assert self.bank.paid[tag] <= 1
        if outcome.status == "ok":
            assert not mine, "what is known is not compensated"
            assert not self.bank.undone[tag]
            return
        (made_good,) = mine
        said = str(outcome.result.value())
        assert len(self.bank.keys.get(f"undone {tag}", set())) <= 1
        assert undo == "safe" or self.bank.undone[tag] <= 1
        match made_good.status:
            case "ok":
                assert outcome.status == "in_doubt"
                assert f"undo ran as a call of its own and ended well: took back {tag}" in said
                assert self.bank.undone[tag] >= 1
            case _:
                assert undo in {"never", "fails"}
                gave_up = self.scene.on_doubt == "ask"
                assert (said == "a person gave up") if gave_up else (IN_DOUBT in said and "but undo" in said)
        if self.scene.kind == "loop":
            assert said in told


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with open_memory(MemoryStore()) as opened:
        yield opened


def set_of(scene: Scene) -> Sequence[pytest.MarkDecorator]:
    if scene in FEW[:2]:
        return ()
    return [pytest.mark.crash if scene in FEW else pytest.mark.full]


@pytest.mark.parametrize(
    "scene",
    [pytest.param(scene, marks=set_of(scene), id=str(scene)) for scene in SCENES],
)
async def test_a_call_in_doubt_is_compensated_wherever_its_worker_dies(
    world: World, scene: Scene, seed: int
) -> None:
    uncut = await Play(world, scene, "uncut").run()
    compensated = 0
    second: dict[int, int] = {}
    for first in range(uncut.crossings):
        cut = await Play(world, scene, f"cut-{first}").run(first)
        compensated += len(cut.bank.undone)
        second[first] = cut.crossings
    assert compensated or scene.undo == "fails"
    draw = random.Random(f"{seed}-{scene}")
    for number in range(DRAWN):
        first = draw.randrange(uncut.crossings)
        await Play(world, scene, f"drawn-{number}").run(first, draw.randrange(uncut.crossings))


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", SCENES, ids=str)
async def test_a_compensation_outlives_a_second_and_a_third_death_at_every_point(
    world: World, scene: Scene, seed: int
) -> None:
    draw = random.Random(f"{seed}-{scene}")
    number = count()
    uncut = await Play(world, scene, "uncut").run()
    for first in range(uncut.crossings):
        recovery = await Play(world, scene, f"cut-{next(number)}").run(first)
        for second in range(recovery.crossings + 1):
            third = draw.randrange(recovery.crossings + 1)
            await Play(world, scene, f"cut-{next(number)}").run(first, second, third)
