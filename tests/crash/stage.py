"""A stage for crashes in one process.

On it are workers that die at a spot, the world outside that counts what they did to it, and a witness at the store who
knows what was durable at each moment.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal, get_args

from outlast.adapter import Agent, Attempt, TurnResult
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.clock import SystemClock
from outlast.codec import encode_records
from outlast.engine.batch import Batcher
from outlast.engine.control import Control
from outlast.engine.spacing import Spacing
from outlast.engine.turn import Advancer
from outlast.fold import records_of
from outlast.gate import Gate, Point
from outlast.notify import Notice
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyRecord,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallStarted,
    TurnSettled,
)
from outlast.records.kinds import Policy
from outlast.session import Session
from outlast.testing.faults import AroundWorld, DeathGate, Killed, MortalWorld, RecordingGate, Spot
from outlast.tool import Done, NotDone, Tool, ToolIO, Unsure, Verdict, tool
from outlast.world import Claim, Commit, Delta, Lease, Takeover, WorkerOffer, World
from tests.nowhere import nowhere

Manner = Literal["never", "safe", "keyed", "keyed-expired", "verify", "verify-unsure", "verify-raises"]
"""A tool's policy, and how honest what stands behind it is."""
Shape = Literal["single", "batch", "asked", "built-in", "slow", "steered", "told"]
"""One call; two at once in lanes; two granted with a model's answer and run in the worker; the same in the harness; one
call of a tool and models that are slow enough to be watched; one call during which a steer arrives; one call, and
somebody who is notified of how the turn stands."""

Script = Sequence[Mapping[str, Any]]
MANNERS: tuple[Manner, ...] = get_args(Manner)
SHAPES: tuple[Shape, ...] = get_args(Shape)
LIMIT_S = 20.0
EVERYWHERE = partial(Spacing, 0, worth=1, part=1)
"""A snapshot wherever one can be."""


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
    listens: bool = False
    """Somebody is notified of how the turns stand."""
    told: Counter[str] = field(default_factory=Counter[str])
    """How often that was told, by its id."""
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

    def act(self, tag: str, io: ToolIO | None, *, safe: bool = False) -> str:
        """Something happens out there."""
        self.effects[tag] += 1
        if io is not None:
            self.keys[tag].add(io.key)
            if io.call in self.witness.finished[self.session]:
                self.wrongs.append(f"the finished call {tag!r} was made again")
            if not safe and io.call not in self.witness.begun[self.session]:
                self.wrongs.append(f"{tag!r} took effect before its intent was durable")
        return f"{tag} done"


class Ear:
    """Hears of how turns stand from one worker, while that lives."""

    def __init__(self, outside: Outside, check: Callable[[], None]) -> None:
        self._outside = outside
        self._check = check

    async def tell(self, notice: Notice) -> str:
        self._check()
        self._outside.told[notice.id] += 1
        return ""


class Countdown:
    """Ends a worker at its n-th crossing of any point, counted from 0."""

    def __init__(self, left: int, world: MortalWorld) -> None:
        self._left = left
        self._world = world

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        self._world.check()
        if self._left == 0:
            self._world.die()
        self._left -= 1
        self._world.check()


class Watched(Scripted):
    """Lets the stage see which attempt is under way."""

    attempt: Attempt | None = None

    async def advance(self, attempt: Attempt) -> TurnResult:
        self.attempt = attempt
        return await super().advance(attempt)


@cache
def described_tool(manner: Manner) -> Tool:
    """A tool as it is declared, without what it does: to describe one takes longer than to live a life."""

    async def act(io: ToolIO, tag: str) -> str:
        """Do something out there."""
        return tag

    async def verify(io: ToolIO, tag: str) -> Verdict:
        return Unsure()

    name = tool_name(manner)
    if manner.startswith("verify"):
        return tool(name=name, verify=verify)(act)
    if manner.startswith("keyed"):
        return tool(name=name, replay="keyed", key_ttl_s=1e-6 if manner == "keyed-expired" else 0.0)(act)
    return tool(name=name, replay="safe" if manner == "safe" else "never")(act)


class Life:
    """One worker, from when it starts to its death or to when nothing is left to do."""

    def __init__(
        self,
        outside: Outside,
        script: Script,
        *,
        name: str,
        slow: bool = False,
        dense: bool = False,
        death: Spot | int | None = None,
    ) -> None:
        """Ready to work.

        Args:
            slow: its models and tools wait until watchers have seen a part of what they say.
            dense: every commit within a turn begins with a snapshot, and leaves all it can to parts.
            death: where it dies: at a spot, or at its n-th crossing of any point.
        """
        self.outside = outside
        self.name = name
        self._slow = slow
        self._spacing = EVERYWHERE if dense else Spacing
        self._published = 0
        self.world = MortalWorld(outside.witness)
        self.record = RecordingGate()
        self.gate: Gate = self.record
        if isinstance(death, int):
            self.gate = Countdown(death, self.world)
        elif death is not None:
            self.gate = DeathGate(death, self.world, before=self._ready_to_die(death), inner=self.record)
        built_ins = {"built_in": self._built_in("never"), "built_in_safe": self._built_in("safe")}
        self.adapter = Watched(script=script, model=self._model, built_ins=built_ins)
        self.agent = Agent("tester", self.adapter, tools=[*map(self._tool, MANNERS), self._nudged()])
        self.control = Control()

    async def work(self, dead: frozenset[str] = frozenset()) -> bool:
        """Claim and advance until nothing is ready. Returns False if it died."""
        world, clock = self.world, SystemClock()
        advancer = Advancer(
            world,
            Batcher(world),
            {"tester": self.agent},
            nowhere,
            self.gate,
            clock,
            kill_grace_s=0.0,
            notifier=Ear(self.outside, world.check) if self.outside.listens else None,
            spacing=self._spacing,
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
        return await self.world.claim(offer, Takeover(encode_records([opened]), 1, PLAIN))

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

    def _tool(self, manner: Manner) -> Tool:
        outside, check = self.outside, self.world.check

        async def act(io: ToolIO, tag: str) -> str:
            """Do something out there."""
            check()
            self._published = outside.witness.published
            io.show(f"{tag} begins")
            await self._until_shown()
            done = outside.act(tag, io, safe=manner == "safe")
            io.show(f"{tag} ends")
            return done

        async def verify(io: ToolIO, tag: str) -> Verdict:
            check()
            if manner == "verify-raises":
                raise SystemExit("nobody is there \ud800")
            if manner == "verify-unsure":
                return Unsure("who knows")
            return Done(f"{tag} done") if outside.effects[tag] else NotDone()

        ask = verify if manner.startswith("verify") else None
        return replace(described_tool(manner), function=act, verify=ask)

    def _nudged(self) -> Tool:
        async def nudge(io: ToolIO, tag: str) -> str:
            """Somebody steers meanwhile; the attempt gets to know of it."""
            session = await Session.find(self.world, self.outside.session)
            await session.steer("mind the gap", id="steer-1")
            attempt = self.adapter.attempt  # none while the recovery runs it
            while io.turn == 1 and attempt is not None and not attempt.steers.waiting():
                self.world.check()
                await asyncio.sleep(0.001)
            return self.outside.act(tag, io)

        return replace(described_tool("never"), name="nudge", function=nudge)

    def _built_in(self, policy: Policy) -> BuiltIn:
        async def act(arguments: Mapping[str, Any]) -> str:
            self.world.check()
            return self.outside.act(str(arguments["tag"]), None)

        return BuiltIn(act, policy)


def call(name: str, tag: str) -> dict[str, Any]:
    """A step of a script. Every tag is used once in a script."""
    return {"do": "tool", "name": name, "arguments": {"tag": tag}}


def say(text: str, *tools: Mapping[str, Any]) -> dict[str, Any]:
    """A step of a script. Every text is used once in a script, and has two words or more."""
    return {"do": "model", "text": text, "tools": tools, "usage": {"output_tokens": len(text)}}


def batch(*tools: Mapping[str, Any]) -> dict[str, Any]:
    return {"do": "batch", "tools": tools}


def tool_name(manner: Manner) -> str:
    return manner.replace("-", "_")


def script_of(shape: Shape, manner: Manner) -> Script:
    """A turn of two model calls, with tool calls of a shape between them."""
    first, last = "think about it", "all is well"
    name = tool_name(manner)
    built_in = "built_in_safe" if manner == "safe" else "built_in"
    match shape:
        case "single" | "slow" | "told":
            return [say(first), call(name, "one"), say(last)]
        case "batch":
            return [say(first), batch(call(name, "one"), call(name, "two")), say(last)]
        case "asked":
            return [say(first, call(name, "one"), call(name, "two")), say(last)]
        case "built-in":
            return [say(first, call(built_in, "one"), call(built_in, "two")), say(last)]
        case "steered":
            return [say(first), call("nudge", "one"), say(last)]
