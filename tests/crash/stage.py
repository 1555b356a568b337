"""A stage for crashes in one process.

On it are workers that die at a spot, the world outside that counts what they did to it, and a witness at the store who
knows what was durable at each moment.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from outlast.adapter import Agent, Attempt, Gateway, Places, Processes, TurnResult
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.clock import SystemClock
from outlast.codec import decode_records, encode_records
from outlast.engine.attempt import Surroundings
from outlast.engine.batch import Batcher
from outlast.engine.turn import Advancer, Control
from outlast.fold import SessionState, fold
from outlast.gate import Gate, Point
from outlast.records import (
    FORMAT,
    AnyRecord,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallStarted,
    PromptQueued,
    SteerTaken,
    TurnSettled,
)
from outlast.records.events import Event
from outlast.recovery import IN_DOUBT
from outlast.session import Outcome, Session
from outlast.testing.faults import AroundWorld, DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Done, NotDone, Tool, ToolIO, Unsure, Verdict, tool
from outlast.watch import Screen, events
from outlast.world import START, Claim, Commit, Cursor, Delta, Lease, Takeover, WorkerOffer, World

Manner = Literal["never", "safe", "keyed", "keyed-expired", "verify", "verify-unsure", "verify-raises"]
"""A tool's policy, and how honest what stands behind it is."""
Shape = Literal["single", "batch", "asked", "built-in", "slow", "steered"]
"""One call; two at once in lanes; two granted with a model's answer and run in the worker; the same in the harness; one
call of a tool and models that are slow enough to be watched; one call during which a steer arrives."""

MANNERS: tuple[Manner, ...] = get_args(Manner)
SHAPES: tuple[Shape, ...] = get_args(Shape)
LIMIT_S = 20.0


class Witness(AroundWorld):
    """Stands at the store: what it has seen landing is durable, whatever a worker thinks."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.intents: dict[str, dict[int, CallIntent]] = defaultdict(dict)
        self.begun: dict[str, set[int]] = defaultdict(set)
        """Calls whose effect may have happened, as far as the log knows."""
        self.finished: dict[str, dict[int, CallOutcome]] = defaultdict(dict)
        self.settled: dict[str, set[int]] = defaultdict(set)
        """Turns that are over."""
        self.published = 0
        self._news = asyncio.Event()

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        results = await super().commit_many(commits)
        for (lease, commit), result in zip(commits, results, strict=True):
            if result is None:
                for record in records_of(lease.session, commit):
                    self._note(lease.session, record)
        return results

    def _note(self, session: str, record: AnyRecord) -> None:
        match record:
            case CallIntent():
                self.intents[session][record.call] = record
                if not record.granted:
                    self.begun[session].add(record.call)
            case CallStarted():
                self.begun[session].add(record.call)
            case CallOutcome():
                self.finished[session][record.call] = record
            case TurnSettled():
                self.settled[session].add(record.turn)
            case _:
                pass

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        await super().publish(lease, after, first, deltas)
        self.published += 1
        self._news.set()

    async def until_published(self, beyond: int) -> None:
        """Wait until watchers were shown something more."""
        while self.published <= beyond:
            self._news.clear()
            await self._news.wait()


@dataclass
class Outside:
    """Everything that the calls of one session do to the world. Nothing here dies with a worker."""

    session: str
    witness: Witness
    asked: Counter[str] = field(default_factory=Counter[str])
    """How often a model was asked, by text."""
    effects: Counter[str] = field(default_factory=Counter[str])
    """How often something was done, by tag."""
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    wrongs: list[str] = field(default_factory=list[str])
    """Promises that were seen broken as it happened."""

    def ask(self, text: str) -> None:
        """A provider is asked for `text`."""
        self.asked[text] += 1
        for outcome in self.witness.finished[self.session].values():
            intent = self.witness.intents[self.session][outcome.call]
            over = intent.turn in self.witness.settled[self.session]
            if not over and intent.kind == "model" and text.encode() in bytes(outcome.result.json):
                self.wrongs.append(f"the finished model call {text!r} was made again")

    def act(self, tag: str, io: ToolIO | None, manner: Manner) -> str:
        """Something happens out there."""
        self.effects[tag] += 1
        if io is not None:
            self.keys[tag].add(io.key)
            if io.call in self.witness.finished[self.session]:
                self.wrongs.append(f"the finished call {tag!r} was made again")
            if manner != "safe" and io.call not in self.witness.begun[self.session]:
                self.wrongs.append(f"{tag!r} took effect before its intent was durable")
        return f"{tag} done"


class Watched(Scripted):
    """Lets the stage see which attempt is under way."""

    attempt: Attempt | None = None

    async def advance(self, attempt: Attempt) -> TurnResult:
        self.attempt = attempt
        return await super().advance(attempt)


class Life:
    """One worker, from when it starts to its death or to when nothing is left to do."""

    def __init__(
        self,
        outside: Outside,
        manner: Manner,
        script: Sequence[Mapping[str, Any]],
        *,
        name: str,
        slow: bool = False,
        spot: Spot | None = None,
    ) -> None:
        self.outside = outside
        self.manner: Manner = manner
        self.name = name
        self._slow = slow
        self._published = 0
        self.world = MortalWorld(outside.witness)
        self.record = RecordingGate()
        self.gate: Gate = self.record
        if spot is not None:
            self.gate = DeathGate(spot, self.world, before=self._ready_to_die(spot), inner=self.record)
        self.adapter = Watched(script=script, model=self._model, built_ins={"built_in": self._built_in()})
        self.agent = Agent("tester", self.adapter, tools=[self._tool(), self._nudged()])
        self.control = Control()

    async def work(self, dead: frozenset[str] = frozenset()) -> bool:
        """Claim and advance until nothing is ready. Returns False if it died."""
        world, clock = self.world, SystemClock()
        advancer = Advancer(
            world, Batcher(world), {"tester": self.agent}, _surroundings, self.gate, clock, kill_grace_s=0.0
        )
        try:
            while (claim := await self._claim(dead)) is not None:
                self.control = Control(claim.lease.session)
                await advancer.advance(claim, self.control)
        except Killed:
            return False
        finally:
            with suppress(Killed):
                await advancer.batcher.drain()
        return not world.dead

    async def _claim(self, dead: frozenset[str]) -> Claim | None:
        opened = AttemptOpened(self.name, "here", {}, SystemClock().now())
        offer = WorkerOffer(self.name, frozenset({"tester"}), FORMAT, dead=dead, only=self.outside.session)
        return await self.world.claim(offer, Takeover(encode_records([opened]), 1, FORMAT))

    def _ready_to_die(self, spot: Spot) -> Callable[[int], Awaitable[None]] | None:
        """A slow model is cut when watchers have seen a part of its answer."""
        if not (self._slow and spot.point is Point.IN_EFFECT and spot.policy == "model"):
            return None
        return lambda _: self.outside.witness.until_published(self._published)

    async def _until_shown(self) -> None:
        if self._slow:
            await self.outside.witness.until_published(self._published)
        self.world.check()

    async def _model(self, text: str) -> AsyncGenerator[str, None]:
        self.world.check()
        self.outside.ask(text)
        self._published = self.outside.witness.published
        first, rest = text.split(" ", 1)
        yield f"{first} "
        await self._until_shown()
        yield rest

    def _tool(self) -> Tool:
        outside, check = self.outside, self.world.check
        manner: Manner = self.manner

        async def act(io: ToolIO, tag: str) -> str:
            """Do something out there."""
            check()
            self._published = outside.witness.published
            io.show(f"{tag} begins")
            await self._until_shown()
            done = outside.act(tag, io, self.manner)
            io.show(f"{tag} ends")
            return done

        async def verify(io: ToolIO, tag: str) -> Verdict:
            check()
            if manner == "verify-raises":
                raise SystemExit("nobody is there \ud800")
            if manner == "verify-unsure":
                return Unsure("who knows")
            return Done(f"{tag} done") if outside.effects[tag] else NotDone()

        if manner.startswith("verify"):
            return tool(verify=verify)(act)
        if manner.startswith("keyed"):
            return tool(replay="keyed", key_ttl_s=1e-6 if manner == "keyed-expired" else 0.0)(act)
        return tool(replay="safe" if manner == "safe" else "never")(act)

    def _nudged(self) -> Tool:
        async def nudge(io: ToolIO, tag: str) -> str:
            """Somebody steers meanwhile; the attempt gets to know of it."""
            session = await Session.find(self.world, self.outside.session)
            await session.steer("mind the gap", id="steer-1")
            attempt = self.adapter.attempt  # none while the recovery runs it
            while io.turn == 1 and attempt is not None and not attempt.steers.waiting():
                self.world.check()
                await asyncio.sleep(0.001)
            return self.outside.act(tag, io, self.manner)

        return tool(replay="safe" if self.manner == "safe" else "never")(nudge)

    def _built_in(self) -> BuiltIn:
        async def act(arguments: Mapping[str, Any]) -> str:
            self.world.check()
            return self.outside.act(str(arguments["tag"]), None, self.manner)

        return BuiltIn(act, "safe" if self.manner == "safe" else "never")


@asynccontextmanager
async def _surroundings(state: SessionState, agent: Agent) -> AsyncGenerator[Surroundings]:
    nowhere = Path("/nonexistent")
    yield Surroundings(cast("Gateway", None), cast("Processes", None), Places(nowhere, nowhere, nowhere))


def script_of(shape: Shape) -> list[Mapping[str, Any]]:
    """A turn of two model calls, with tool calls of a shape between them."""
    first: dict[str, Any] = {"do": "model", "text": "think about it", "usage": {"output_tokens": 3}}
    last: dict[str, Any] = {"do": "model", "text": "all is well", "usage": {"output_tokens": 2}}
    calls = [{"do": "tool", "name": "act", "arguments": {"tag": tag}} for tag in ("one", "two")]
    match shape:
        case "single" | "slow":
            return [first, calls[0], last]
        case "batch":
            return [first, {"do": "batch", "tools": calls}, last]
        case "asked":
            return [{**first, "tools": calls}, last]
        case "built-in":
            return [{**first, "tools": [{**call, "name": "built_in"} for call in calls]}, last]
        case "steered":
            return [first, {**calls[0], "name": "nudge"}, last]


@dataclass
class Play:
    """One session, carried by one life after the other until its turn ends."""

    outside: Outside
    lives: list[Life]
    outcome: Outcome
    seen: list[Event]
    """What a watcher saw who was there from the beginning."""

    @property
    def crossed(self) -> list[Spot]:
        """Where the last life could have been struck."""
        return spots(self.lives[-1].record.crossings)

    def screen(self) -> Screen:
        return screen_of(self.seen)


async def play(
    world: World,
    session: str,
    manner: Manner,
    shape: Shape,
    deaths: Sequence[Spot] = (),
    *,
    wait: bool = False,
) -> Play:
    """Carry a session through the `deaths` of its workers, one after the other, to the end.

    Args:
        wait: let the dying worker's watchers see its deltas before it dies within a model call.
    """
    witness = Witness(world)
    outside = Outside(session, witness)
    script = script_of(shape)
    opened = await Session.open(world, session, agent=Agent("tester", Scripted(script=script)))
    await opened.send("go", id="in-1")
    seen: list[Event] = []
    watching = asyncio.get_running_loop().create_task(_watch(world, session, seen))
    lives: list[Life] = []
    async with asyncio.timeout(LIMIT_S):
        for spot in (*deaths, None):
            dead = frozenset(life.name for life in lives)
            name, slow = f"life-{len(lives)}", shape == "slow"
            life = Life(outside, manner, script, name=name, slow=slow, spot=spot)
            lives.append(life)
            if await life.work(dead):
                break
        outcome = await opened.result(1)
        await watching
    return Play(outside, lives, outcome, seen)


async def _watch(world: World, session: str, seen: list[Event]) -> None:
    async with aclosing(cast("AsyncGenerator[Event, None]", events(world, session, START))) as coming:
        async for event in coming:
            seen.append(event)
            if event.kind == "turn.settled":
                return


async def read_from(world: World, session: str, cursor: str) -> list[Event]:
    """What a watcher sees who comes back with `cursor`, up to the end of the turn."""
    seen: list[Event] = []
    async with aclosing(
        cast("AsyncGenerator[Event, None]", events(world, session, Cursor.parse(cursor)))
    ) as coming:
        async for event in coming:
            seen.append(event)
            if event.kind == "turn.settled":
                break
    return seen


def screen_of(seen: Sequence[Event]) -> Screen:
    screen = Screen()
    for event in seen:
        screen.apply(event)
    return screen


def records_of(session: str, commit: Commit) -> list[AnyRecord]:
    header = commit.header
    return decode_records(commit.body, session=session, seq=header.seq, format=header.format)


async def check_steer(play: Play) -> None:
    """A steer that was put is taken once: by a model call of its turn, or as the next prompt."""
    session, witness = play.outside.session, play.outside.witness
    put = await witness.find_input(session, "steer-1")
    if put is None:
        return
    records = [record for commit in await witness.commits(session) for record in records_of(session, commit)]
    taken = [record for record in records if isinstance(record, SteerTaken)]
    queued = [record for record in records if isinstance(record, PromptQueued) and record.steered]
    assert put.consumed_by is not None
    assert len(taken) + len(queued) == 1
    settled = sum(isinstance(record, TurnSettled) for record in records)
    assert settled == 1 + len(queued)


async def check(play: Play, manner: Manner, shape: Shape) -> None:
    """Every promise that holds whatever dies when."""
    outside = play.outside
    session, witness = outside.session, outside.witness
    assert not outside.wrongs
    state = fold(
        session, await witness.commits(session)
    )  # refuses a log out of order, and calls open at the end
    assert state.turn is None
    assert not state.queue
    if shape == "steered":
        await check_steer(play)
        return
    assert play.outcome.status == "done", play.outcome
    assert set(outside.asked) == {"think about it", "all is well"}
    assert play.outcome.usage.output_tokens == 5
    results = play.outcome.value
    flat = results[1] if shape == "batch" else results[1:-1]
    assert (results[0], results[-1]) == ("think about it", "all is well")
    outcomes: dict[str, CallOutcome] = {}
    for outcome in witness.finished[session].values():
        intent = witness.intents[session][outcome.call]
        if intent.kind == "tool":
            outcomes[intent.arguments.value()["tag"]] = outcome
    tags = ("one",) if shape in {"single", "slow"} else ("one", "two")
    assert len(flat) == len(tags)
    assert set(outcomes) == set(tags)
    for tag, result in zip(tags, flat, strict=True):
        _check_effect(play, manner, tag, outcomes[tag], shape)
        if outcomes[tag].status == "ok":
            assert result == f"{tag} done"
        else:
            assert IN_DOUBT in (result if shape == "built-in" else result["value"])


def _check_effect(play: Play, manner: Manner, tag: str, outcome: CallOutcome, shape: Shape) -> None:
    outside, honest = play.outside, ("safe", "keyed", "verify")
    times = outside.effects[tag]
    if shape == "built-in" and manner != "safe":
        manner = "never"
    if outcome.status == "ok":
        assert times >= 1, "a result without an effect"
    else:
        assert outcome.status == "in_doubt"
        assert manner not in honest, "there was no reason for doubt"
        assert outcome.call in outside.witness.begun[outside.session], "what never began is in no doubt"
        assert len(play.lives) > 1, "nobody died"
    if manner != "safe":
        assert times <= 1 or manner == "keyed", f"{tag} happened {times} times"
        assert shape == "built-in" or len(outside.keys[tag]) <= 1, "another key"
