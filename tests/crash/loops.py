"""Loops of one's own on the stage: programs made of data, the world outside that they act on, and workers that die.

A program says what a loop does, step by step, so that any program can be drawn. What depends on the clock or on chance
stands in no result: two lives of one program that nobody kills end with the same.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.codec import encode_records
from outlast.documents import Document
from outlast.engine.batch import Batcher
from outlast.engine.control import Control
from outlast.engine.spacing import Spacing
from outlast.engine.turn import Advancer
from outlast.errors import ModelCallFailed
from outlast.fold import CallState, SessionState, fold
from outlast.gate import Gate
from outlast.model import Answer, AssistantMessage, Request, Show, TextPart, UserMessage, quiet, user
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyRecord,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    Decided,
    DocumentEdited,
    Set,
    SignalKept,
    Usage,
)
from outlast.records import Verdict as VerdictRecord
from outlast.records.kinds import Ruling
from outlast.rules import ask
from outlast.session import Outcome, Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, RecordingGate, Spot, spots
from outlast.tool import Done, NotDone, Tool, ToolFailed, ToolIO, Unsure, Verdict, tool
from outlast.world import Claim, Takeover, WorkerOffer, World
from tests.crash.stage import EVERYWHERE, Countdown, Outside, Witness, records_of
from tests.nowhere import nowhere

RecordT = TypeVar("RecordT", bound=AnyRecord)
Manner = Literal["never", "ask", "safe", "keyed", "verify", "verify-unsure", "asked"]
"""A tool's policy, and how honest what stands behind it is; `asked` is a `never` that a rule asks a person about."""
Valued = Literal["now", "random", "uuid", "once"]
DAY_S: Final = 86_400.0
LIMIT_S: Final = 20.0
SPAWN_S: Final = 2 * DAY_S
NOTES: Final = "notes"
"""A document that the loop edits, and an application meanwhile."""
ACTS: Final = "acts"
"""A document that its tools edit."""
EDITS: Final = 3
"""How often an application edits a document of a loop that edits one."""
ROUNDS: Final = 60
"""How often a turn may come to rest before it must have ended."""


@dataclass(frozen=True)
class Act:
    """Run a tool. Every tag stands once in a program."""

    manner: Manner
    tag: str
    fails: bool = False
    """It takes effect and then ends as an error; of those that are asked what became of them none can say so."""


@dataclass(frozen=True)
class Think:
    """Ask a model. Every text stands once in a program."""

    text: str
    failures: int = 0
    """How often its provider fails before it answers."""


@dataclass(frozen=True)
class Take:
    """A value of the clock or of chance."""

    of: Valued


@dataclass(frozen=True)
class Sleep:
    """Wait for some time."""

    seconds: float


@dataclass(frozen=True)
class Await:
    """Wait for a signal."""

    signal: str
    timeout_s: float | None = None
    """Only where no other wait has that name: else it would hang on the order of lanes which of them goes without."""
    given: bool = True
    """Somebody sends it: `early`, or when the turn has come to rest in this wait. Always without a time-out."""
    early: bool = False
    """It comes before the turn begins."""


@dataclass(frozen=True)
class Ask:
    """Ask a person."""

    question: str


@dataclass(frozen=True)
class Note:
    """Edit a document, and look at it. Every tag stands once in a program."""

    tag: str
    rejected: bool = False
    """It has no place in the document."""


@dataclass(frozen=True)
class Spawn:
    """A session of another agent that does something out there. Every tag stands once in a program."""

    tag: str
    fails: bool = False
    lasts: bool = False
    """It goes on for ever; nobody waits for longer than `SPAWN_S`."""


@dataclass(frozen=True)
class Again:
    """The loop begins again behind this step; only in a program itself, not in a step of it."""


@dataclass(frozen=True)
class Change:
    """Code that came later."""

    name: str


@dataclass(frozen=True)
class Lanes:
    """Programs beside one another."""

    programs: "tuple[Program, ...]"


@dataclass(frozen=True)
class Try:
    """What fails in here is a result."""

    steps: "Program"


@dataclass(frozen=True)
class Fail:
    """The loop itself raises something."""

    text: str


Step: TypeAlias = (
    Act | Think | Take | Note | Sleep | Await | Ask | Spawn | Again | Change | Lanes | Try | Fail
)
Program: TypeAlias = tuple[Step, ...]


class Failure(Exception):
    """What a loop raises of its own."""


def each(program: Program) -> list[Step]:
    """Every step of a program, those within others too."""
    found: list[Step] = []
    for step in program:
        found.append(step)
        match step:
            case Lanes(programs=programs):
                found.extend(inner for one in programs for inner in each(one))
            case Try(steps=steps):
                found.extend(each(steps))
            case _:
                pass
    return found


def tool_name(manner: Manner) -> str:
    return manner.replace("-", "_")


@cache
def described_tool(manner: Manner) -> Tool:
    """A tool as it is declared, without what it does: to describe one takes longer than to live a life."""

    async def act(io: ToolIO, tag: str, fails: bool) -> str:  # noqa: FBT001 - by name
        """Do something out there."""
        return tag

    async def verify(io: ToolIO, tag: str, fails: bool) -> Verdict:  # noqa: FBT001 - by name
        return Unsure()

    name = tool_name(manner)
    if manner.startswith("verify"):
        return tool(name=name, verify=verify)(act)
    if manner == "keyed":
        return tool(name=name, replay="keyed")(act)
    return tool(
        name=name,
        replay="safe" if manner == "safe" else "never",
        on_doubt="ask" if manner == "ask" else "tell",
    )(act)


class Walker:
    """A program as a loop, and what it does to the outside, in the hands of one worker."""

    def __init__(self, program: Program, outside: Outside, check: Callable[[], None]) -> None:
        self.program = program
        self.outside = outside
        self.check = check
        self.failures = {step.text: step.failures for step in each(program) if isinstance(step, Think)}
        self.taken: dict[str, list[object]] = defaultdict(list)
        """By lane, the values that it took in this attempt since it began, the last time."""
        self.before: Counter[str] = Counter()
        """How many it took before that."""

    def agents(self) -> dict[str, Agent]:
        """By name; those of a play offer nothing that another spawned."""
        tools = [self.tool(manner) for manner in get_args(Manner)]
        tester = Agent("tester", Loop(self.run), tools=tools, rules=[ask("asked")])
        return {"tester": tester, "helper": Agent("helper", Loop(self.help_out), tools=tools)}

    async def run(self, io: IO, prompt: str) -> object:
        """The loop."""
        state: dict[str, Any] = io.state or {"at": 0, "found": [], "before": {}}
        self.taken, self.before = defaultdict(list), Counter(state["before"])
        found: list[object] = state["found"]
        for at, step in enumerate(self.program[state["at"] :], state["at"]):
            if isinstance(step, Again):
                taken = Counter({lane: len(values) for lane, values in self.taken.items()})
                await io.continue_as_new({"at": at + 1, "found": found, "before": self.before + taken})
            found.append(await self.step(io, step))
        return found

    async def help_out(self, io: IO, prompt: str) -> object:
        """The loop of what it spawns."""
        tag, _, manner = prompt.partition(" ")
        did = await io.tool("verify", tag=tag, fails=False)
        if manner == "fails":
            raise Failure(f"{tag} failed")
        return await io.wait_for("nobody says so") if manner == "lasts" else [did, await io.sleep(0.5)]

    async def walk(self, io: IO, program: Program) -> list[object]:
        return [await self.step(io, step) for step in program]

    async def step(self, io: IO, step: Step) -> object:
        match step:
            case Act(manner=manner, tag=tag, fails=fails):
                return await io.tool(tool_name(manner), tag=tag, fails=fails)
            case Think(text=text):
                return (await io.model(self, [user(text)])).message.text
            case Take(of=of):
                self.taken[io.lane].append(await self.take(io, of))
                return of
            case Sleep(seconds=seconds):
                return await io.sleep(seconds)
            case Await(signal=signal, timeout_s=timeout_s):
                return await io.wait_for(signal, timeout_s=timeout_s)
            case Ask(question=question):
                return await io.ask(question)
            case _:
                return await self.nested(io, step)

    async def nested(self, io: IO, step: Note | Spawn | Again | Change | Lanes | Try | Fail) -> object:
        match step:
            case Spawn():
                manner = " fails" if step.fails else " lasts" if step.lasts else ""
                limit_s = SPAWN_S if step.lasts else None
                return await io.spawn("helper", step.tag + manner, timeout_s=limit_s)
            case Again():
                raise AssertionError("a loop begins again in its own steps only")
            case _:
                return await self.inner(io, step)

    async def inner(self, io: IO, step: Note | Change | Lanes | Try | Fail) -> object:
        match step:
            case Note(tag=tag, rejected=rejected):
                await io.docs.edit(NOTES, Set(tag, "nowhere" if rejected else f"/{tag}"))
                return (await io.docs.get(NOTES)).value[tag]
            case Change(name=name):
                return await io.patched(name)
            case Lanes(programs=programs):
                return await io.gather(*(partial(self.walk, program=one) for one in programs))
            case Try(steps=steps):
                try:
                    return await self.walk(io, steps)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is a result
                    return f"{type(error).__name__}: {error}"
            case Fail(text=text):
                raise Failure(text)

    async def take(self, io: IO, of: Valued) -> object:
        match of:
            case "now":
                return await io.now()
            case "random":
                return await io.random()
            case "uuid":
                return await io.uuid()
            case "once":
                return await io.once("draw", lambda: (len(self.taken), [self.outside.session]))

    # the model

    name = "m-1"
    provider = "tests"
    context_tokens = 0

    def versions(self) -> Mapping[str, str]:
        return {}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        """Say what was asked."""
        self.check()
        said = request.messages[-1]
        assert isinstance(said, UserMessage)
        (part,) = said.parts
        assert isinstance(part, TextPart)
        self.outside.ask(part.text)
        show("text", part.text)
        await asyncio.sleep(0)
        self.check()
        if self.outside.asked[part.text] <= self.failures[part.text]:
            raise ModelCallFailed(status=529, reason="it is tired")
        return Answer(message=AssistantMessage((part,)), stop="end", usage=Usage(1, len(part.text)))

    # its tools

    def tool(self, manner: Manner) -> Tool:
        async def act(io: ToolIO, tag: str, fails: bool) -> object:  # noqa: FBT001 - by name
            """Do something out there."""
            self.check()
            await asyncio.sleep(0)
            await io.docs.edit(ACTS, Set(io.attempt, f"/{tag}"))
            replace(self.outside, session=io.session).act(tag, io, safe=manner == "safe")
            if io.session == self.outside.session:
                self.look_for_values(io)
            if fails:
                raise ToolFailed(f"{tag} failed")
            return {"done": (tag, 1)}

        async def verify(io: ToolIO, tag: str, fails: bool) -> Verdict:  # noqa: FBT001 - by name
            self.check()
            if manner == "verify-unsure":
                return Unsure("who knows")
            return Done({"done": [tag, 1]}) if self.outside.effects[tag] else NotDone()

        ask = verify if manner.startswith("verify") else None
        return replace(described_tool(manner), function=act, verify=ask)

    def look_for_values(self, io: ToolIO) -> None:
        """What the lane took from the clock and from chance stands in the log before an effect that may lean on it."""
        outside = self.outside
        intent = outside.witness.intents[outside.session].get(io.call)
        if intent is not None and intent.policy != "safe":
            taken = self.taken.get(intent.lane, [])
            if values_of(outside, intent.lane)[self.before[intent.lane] :][: len(taken)] != taken:
                outside.wrongs.append(
                    f"{intent.name} took effect before the values of {intent.lane} were durable"
                )


def values_of(outside: Outside, lane: str) -> list[Any]:
    """The values of a lane as the log has them, in order."""
    intents = outside.witness.intents[outside.session].values()
    finished = outside.witness.finished[outside.session]
    return [
        finished[one.call].result.value()
        for one in intents
        if one.kind == "value"
        and one.lane == lane
        and one.call in finished
        and one.name.partition(" ")[0] not in {"patched", "read", "edit"}
    ]


class LoopLife:
    """One worker, from when it starts to its death or to when the turn has ended.

    Args:
        death: where it dies: at a spot, or at its n-th crossing of any point.
    """

    def __init__(
        self, program: Program, outside: Outside, clock: ManualClock, *, name: str, death: Spot | int | None
    ) -> None:
        self.name = name
        self.world = MortalWorld(outside.witness)
        self.record = RecordingGate()
        self.gate: Gate = self.record
        if isinstance(death, int):
            self.gate = Countdown(death, self.world)
        elif death is not None:
            self.gate = DeathGate(death, self.world, inner=self.record)
        self.walker = Walker(program, outside, self.world.check)
        self._clock = clock
        self._agents = self.walker.agents()
        self._session = outside.session
        self._spawns = any(isinstance(step, Spawn) for step in each(program))

    async def work(self, dead: frozenset[str]) -> bool:
        """Claim and advance until nothing is ready. Returns False if it died."""
        world, clock = self.world, self._clock
        # Every other life writes a snapshot wherever it can, which the next begins with.
        spacing = EVERYWHERE if self.name.endswith(("1", "3", "5", "7", "9")) else Spacing
        advancer = Advancer(
            world,
            Batcher(world),
            self._agents,
            nowhere,
            self.gate,
            clock,
            kill_grace_s=0.0,
            spacing=spacing,
        )
        try:
            while (claim := await self._claim(dead)) is not None:
                await advancer.advance(claim, Control(claim.lease.session))
        except Killed:
            return False
        finally:
            with suppress(Killed):
                await advancer.batcher.drain()
        return not world.dead

    async def _claim(self, dead: frozenset[str]) -> Claim | None:
        """A session of the family that is ready. Others of the same World are other plays'."""
        opened = encode_records([AttemptOpened(self.name, "here", {}, self._clock.now())])
        for session in await family(self.world, self._session) if self._spawns else [self._session]:
            offer = WorkerOffer(self.name, frozenset(self._agents), FORMAT, dead=dead, only=session)
            claim = await self.world.claim(offer, Takeover(opened, 1, PLAIN))
            if claim is not None:
                return claim
        return None


async def family(world: World, session: str) -> list[str]:
    """A session and those that it spawned."""
    heads = (await world.list(limit=1_000)).sessions
    return [session, *sorted(head.session for head in heads if head.session.startswith(f"{session}."))]


class Crowd:
    """Everybody outside who gives a turn what it waits for, when it has come to rest."""

    def __init__(
        self, session: Session, program: Program, clock: ManualClock, rulings: Sequence[Ruling]
    ) -> None:
        self._session = session
        self._spawns = any(isinstance(step, Spawn) for step in each(program))
        self._clock = clock
        self._rulings = list(rulings)
        self._sent = 0
        self._left: Counter[str] = Counter()
        self._edits: list[asyncio.Task[Document]] = []
        self._edits_too = any(isinstance(step, Note) for step in each(program))
        waits = [step for step in each(program) if isinstance(step, Await) and step.given]
        self._early = [step.signal for step in waits if step.early]
        self._left.update(step.signal for step in waits if not step.early)

    async def begin(self) -> None:
        """What is there before the turn."""
        for signal in self._early:
            await self._signal(signal)
        await self._edit()
        await self.end()
        await self._session.send("go", id="in-1")
        await self._edit()

    async def attend(self) -> None:
        """Give what is waited for; if that is only time, let it pass.

        Raises:
            AssertionError: the turn is at rest and waits for nothing.
        """
        state = await self._session.state()
        assert state.turn is not None
        # How far the lanes had come when the model failed is a matter of luck: all gets its turn after the pause.
        paused = state.turn.again_at_s > self._clock.now()
        gave = [not paused and await self._give(call) for call in state.turn.open_calls()]
        parked = state.turn.parked
        if parked is not None and parked.why == "stuck":  # so many died in a row
            await self._session.retry()
            return
        evidence = {} if parked is None else parked.evidence
        for call in evidence.get("in_doubt", ()):
            await self._decide(call, self._rulings.pop() if self._rulings else "done")
            gave.append(True)
        for call in evidence.get("asks", ()):
            await self._decide(call, "allow")
            gave.append(True)
        if len(self._edits) < EDITS:
            await self._edit()
        if not any(gave):
            world, name = self._session.world, self._session.id
            heads = [await world.get(one) for one in (await family(world, name) if self._spawns else [name])]
            wakes = [head.wake_at_s for head in heads if head.wake_at_s is not None]
            assert wakes, "it waits for nothing"
            self._clock.turn(max(0.0, min(wakes) - self._clock.now()))

    async def _give(self, call: CallState) -> bool:
        intent = call.intent
        if intent.kind != "wait" or intent.name in {"sleep", "spawn"}:
            return False
        about = intent.arguments.value()
        if intent.name == "person":
            await self._decide(intent.call, "done", f"answer to {about['question']}")
            return True
        if not self._left[about["signal"]]:
            return False
        self._left[about["signal"]] -= 1
        await self._signal(about["signal"])
        return True

    async def end(self) -> int:
        """Wait until every edit of the application is in the log. Returns how many there were."""
        return len(await asyncio.gather(*self._edits))

    async def _edit(self) -> None:
        """An application edits the loop's document, whoever holds the session."""
        if not self._edits_too:
            return
        name = f"edit-{len(self._edits) + 1}"
        edit = self._session.edit(NOTES, Set(name, f"/{name}"), id=name)
        self._edits.append(asyncio.get_running_loop().create_task(edit))
        # Once the edit is durable it goes on, so that every play takes the same course.
        while await self._session.world.find_input(self._session.id, name) is None:  # noqa: ASYNC110 - a World has no event for it
            await asyncio.sleep(0)

    async def _signal(self, name: str) -> None:
        self._sent += 1
        value = {"of": name, "pad": "x" * (9000 if name == "big" else 1)}
        for _ in range(2):  # the same once more changes nothing
            await self._session.signal(name, value, id=f"signal-{self._sent}")

    async def _decide(self, call: int, ruling: Ruling, value: object = None) -> None:
        await self._session.decide(call, ruling, value, by="ann")
        await self._session.decide(call, "failed", "too late", by="bob")


@dataclass
class LoopPlay:
    """One program, carried by one life after the other until its turn ended."""

    program: Program
    outside: Outside
    lives: list[LoopLife]
    outcome: Outcome
    edits: int = 0
    """How many an application made."""
    records: list[AnyRecord] = field(default_factory=list[AnyRecord])

    @property
    def crossed(self) -> list[Spot]:
        """Where the last life could have been struck."""
        return spots(self.lives[-1].record.crossings)

    @property
    def ended(self) -> tuple[str, object, str]:
        return self.outcome.status, self.outcome.value, self.outcome.error

    def doubts(self) -> bool:
        """Whether a call was ever in doubt: then the loop may have gone another way."""
        tools = {one.call for one in self.of(CallIntent) if one.kind == "tool"}
        decided = any(one.call in tools for one in self.of(Decided) if one.ruling != "allow")
        return decided or any(one.status == "in_doubt" for one in self.of(CallOutcome))

    def of(self, kind: type[RecordT]) -> Iterator[RecordT]:
        """Its records of a kind."""
        return (record for record in self.records if isinstance(record, kind))


async def play_loop(
    world: World,
    clock: ManualClock,
    name: str,
    program: Program,
    deaths: Sequence[Spot | int] = (),
    rulings: Sequence[Ruling] = (),
) -> LoopPlay:
    """Carry a session through the `deaths` of its workers, one after the other, to the end of its turn."""
    witness = Witness(world)
    outside = Outside(name, witness)
    session = await Session.open(world, name, agent="tester", clock=clock)
    crowd = Crowd(session, program, clock, rulings)
    await crowd.begin()
    lives: list[LoopLife] = []
    left = [*deaths]

    def born() -> LoopLife:
        death = left.pop(0) if left else None
        return LoopLife(program, outside, clock, name=f"{name}-{len(lives)}", death=death)

    async with asyncio.timeout(LIMIT_S):
        lives.append(born())
        for _ in range(ROUNDS):
            while not await lives[-1].work(frozenset(life.name for life in lives[:-1])):
                lives.append(born())
            if not (await world.get(name)).turn_open:
                break
            await crowd.attend()
        else:
            raise AssertionError("the turn never ends")
        outcome = await session.result(1)
        edits = await crowd.end()
    records = [record for commit in await world.commits(name) for record in records_of(name, commit)]
    return LoopPlay(program, outside, lives, outcome, edits, records)


async def check_loop(play: LoopPlay) -> None:
    """Every promise that holds whatever dies when."""
    outside = play.outside
    assert not outside.wrongs
    state = fold(outside.session, await outside.witness.commits(outside.session))
    assert state.turn is None
    _check_signals(play, state)
    _check_documents(play, state)
    _check_models(play)
    outcomes = {one.call: one for one in play.of(CallOutcome)}
    again = Counter(one.call for one in play.of(Decided) if one.ruling == "run_again")
    steps = {step.tag: step for step in each(play.program) if isinstance(step, Act)}
    for intent in play.of(CallIntent):
        if intent.kind == "tool":
            step = steps.pop(intent.arguments.value()["tag"])
            _check_effect(play, step, outcomes[intent.call], again[intent.call])
    assert not set(steps) & set(outside.effects), "an effect without an intent"
    last = play.lives[-1].walker
    for lane, taken in last.taken.items():
        assert taken == values_of(outside, lane)[last.before[lane] :], (
            "a value that is not the one in the log"
        )
    await _check_family(play)


async def _check_family(play: LoopPlay) -> None:
    """Each spawn has one session, which did what it was asked at most once and has told so, or was told to end."""
    outside, world = play.outside, play.outside.witness
    steps = {step.tag: step for step in each(play.program) if isinstance(step, Spawn)}
    intents = {one.call: one for one in play.of(CallIntent) if one.child}
    outcomes = {one.call: one for one in play.of(CallOutcome) if one.call in intents}
    children = (await family(world, outside.session))[1:] if steps else []
    assert sorted(one.child for one in intents.values()) == sorted(children), "a child without its call"
    for call, intent in intents.items():
        step = steps.pop(intent.arguments.value()["prompt"].partition(" ")[0])
        state = fold(intent.child, await world.commits(intent.child))
        assert (state.turn, state.queue, state.errands, state.next_turn) == (None, [], [], 2)
        assert state.last is not None
        ends = (
            ("cancelled", "interrupted")
            if step.lasts
            else ("failed", "error")
            if step.fails
            else ("done", "ok")
        )
        assert (state.last.status, outcomes[call].status) == ends
        assert outside.effects[step.tag] == 1
    assert not set(steps) & set(outside.effects), "an effect of a child that nobody spawned"
    assert fold(outside.session, await world.commits(outside.session)).errands == []


def _check_documents(play: LoopPlay, state: SessionState) -> None:
    """Each edit is there once, in one order: of a loop where it was made, of a tool where it ended well."""
    outcomes = {one.call: one.status for one in play.of(CallOutcome)}
    edited = list(play.of(DocumentEdited))
    for name in (NOTES, ACTS):
        assert [one.version for one in edited if one.name == name] == list(
            range(1, state.version_of(name) + 1)
        )
    theirs = [f"edit-{number + 1}" for number in range(play.edits)]
    assert sorted(one.input for one in edited if one.input) == theirs
    calls = [one.call for one in edited if not one.input]
    assert len(set(calls)) == len(calls), "an edit is there twice"
    assert {outcomes[call] for call in calls} <= {"ok"}, "an edit of a call that did not end well"
    otherwise = {one.call for one in play.of(Decided) if one.ruling != "allow"} | {
        one.call for one in play.of(VerdictRecord) if one.verdict == "done"
    }
    tools = {one.call for one in play.of(CallIntent) if one.kind == "tool" or one.name == f"edit {NOTES}"}
    well = {call for call in tools if outcomes[call] == "ok"}
    assert well - otherwise <= set(calls), "an edit is lost"
    found = state.documents.get(NOTES)
    tags = {step.tag for step in each(play.program) if isinstance(step, Note) and not step.rejected}
    value: dict[str, object] = {} if found is None else found.value.value()
    assert {*theirs} <= set(value) <= {*tags, *theirs}


def _check_models(play: LoopPlay) -> None:
    """A model is asked again only if its provider failed, or somebody died who had asked."""
    for step in each(play.program):
        if isinstance(step, Think):
            asked = play.outside.asked[step.text]
            assert asked <= step.failures + len(play.lives), f"{step.text} was asked {asked} times"


def _check_signals(play: LoopPlay, state: SessionState) -> None:
    """Each signal ends one wait, and each wait ends by one signal or by its time."""
    kept = [one.input for one in play.of(SignalKept)]
    taken = [one.signal for one in play.of(CallOutcome) if one.signal]
    waits = {one.call for one in play.of(CallIntent) if (one.kind, one.name) == ("wait", "signal")}
    came = [one for one in play.of(CallOutcome) if one.call in waits and one.status == "ok"]
    assert len(set(kept)) == len(kept)
    assert len(set(taken)) == len(taken) == len(came)
    assert sorted(taken + [one.input for one in state.signals]) == sorted(kept)


def _check_effect(play: LoopPlay, step: Act, outcome: CallOutcome, again: int) -> None:
    outside, times = play.outside, play.outside.effects[step.tag]
    if outcome.status == "in_doubt":
        assert step.manner in {"never", "asked", "verify-unsure"}, "there was no reason for doubt"
        assert len(play.lives) > 1, "nobody died"
    elif not any(one.call == outcome.call for one in play.of(Decided) if one.ruling != "allow"):
        assert outcome.status == ("error" if step.fails else "ok")
        assert times >= 1, "a result without an effect"
    if step.manner not in {"safe", "keyed"}:
        assert times <= 1 + again, f"{step.tag} happened {times} times"
    assert len(outside.keys[step.tag]) <= 1 or step.manner == "safe", "another key"
