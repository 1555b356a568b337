"""Made `v1`: `python -m tests.histories.make_v1 DIRECTORY`.

Kept to show where those files come from. It is run by no test, and never again over files that were released.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from outlast.adapter import Agent
from outlast.adapters.scripted import BuiltIn, Model, Scripted
from outlast.clock import ManualClock
from outlast.codec import NODE, Packer, encode_input, encode_records, record_refs
from outlast.engine.batch import Batcher
from outlast.engine.control import Control
from outlast.engine.turn import Advancer
from outlast.errors import HarnessError
from outlast.fold import fold
from outlast.gate import OpenGate, Point
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyRecord,
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallRetracted,
    CallStarted,
    Cancel,
    InputDropped,
    Mirrored,
    Payload,
    Prompt,
    PromptQueued,
    SessionOpened,
    Snapshot,
    Steer,
    SteerTaken,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
    Usage,
    Verdict,
)
from outlast.session import Session
from outlast.testing.faults import DeathGate, Killed, MortalWorld, Spot
from outlast.tool import Done, Tool, ToolFailed, ToolIO, Unsure, tool
from outlast.tool import Verdict as Said
from outlast.world import Commit, Header, Takeover, WorkerOffer, World
from outlast.world.commit import make_commit
from outlast.worlds.memory import open_memory
from tests.histories.schema import schema
from tests.histories.stored import History, summary
from tests.nowhere import nowhere

NEVER = Spot(Point.IN_EFFECT, "never")
MODEL = Spot(Point.IN_EFFECT, "model", 2)


async def booked(io: ToolIO, seat: str) -> Said:
    """Ask about a booking."""
    return Unsure("the line was dead") if seat == "9z" else Done({"seat": seat})


@tool
async def refund(io: ToolIO, cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@tool(replay="safe")
async def look(io: ToolIO) -> str:
    """Look around."""
    return "much to see: " + "0123456789" * 1000


@tool(replay="keyed", key_ttl_s=3600)
async def charge(io: ToolIO, cents: int) -> str:
    """Charge."""
    raise ToolFailed("the card was refused")


@tool(verify=booked)
async def book(io: ToolIO, seat: str) -> str:
    """Book a seat."""
    return seat


@tool(on_doubt="ask")
async def ship(io: ToolIO) -> str:
    """Ship."""
    return "shipped"


TOOLS: Sequence[Tool] = (refund, look, charge, book, ship)


def _call(name: str, **arguments: object) -> dict[str, Any]:
    return {"do": "tool", "name": name, "arguments": arguments}


def _model(text: str, *tools: Mapping[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 7, "cost_usd": 0.25}
    return {"do": "model", "text": text, "tools": list(tools), "usage": usage}


class Stage:
    """One session on a World in memory, advanced by workers that die where they are told to."""

    def __init__(self, world: World, clock: ManualClock, session: Session, agent: Agent) -> None:
        self.world = world
        self.clock = clock
        self.session = session
        self._agent = agent
        self._dead: set[str] = set()

    async def work(self, spot: Spot | None = None) -> None:
        """A new worker: until nothing is ready, or to its death at `spot`."""
        name = f"worker-{len(self._dead) + 1}"
        world = MortalWorld(self.world)
        gate = OpenGate() if spot is None else DeathGate(spot, world)
        agents = {self._agent.name: self._agent}
        advancer = Advancer(world, Batcher(world), agents, nowhere, gate, self.clock, kill_grace_s=0.0)
        offer = WorkerOffer(name, frozenset(agents), FORMAT, dead=frozenset(self._dead))
        opened = encode_records([AttemptOpened(name, "host-1", {"outlast": "0.1"}, self.clock.now())])
        self._dead.add(name)
        with suppress(Killed):
            while (claim := await world.claim(offer, Takeover(opened, 1, PLAIN))) is not None:
                await advancer.advance(claim, Control())
        with suppress(Killed):
            await advancer.batcher.drain()
        self.clock.turn(60.0)

    async def history(self, inputs: Iterable[str]) -> History:
        commits = list(await self.world.commits(self.session.id))
        names = [name for commit in commits for name in commit.header.refs]
        blobs = await self.world.get_many(self.session.id, names)
        whole = [
            replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits
        ]
        texts = [Prompt("go on", 1.0), Steer("a little faster", 2, 2.0), Cancel(3, "enough", 3.0)]
        return History.of(self.session.id, whole, dict(zip(inputs, map(encode_input, texts), strict=False)))


@asynccontextmanager
async def _stage(
    name: str,
    script: Sequence[Mapping[str, Any]],
    *,
    model: Model | None = None,
    built_ins: Mapping[str, BuiltIn] | None = None,
) -> AsyncGenerator[Stage]:
    clock = ManualClock()
    adapter = Scripted(script=script, model=model, built_ins=built_ins)
    agent = Agent("tester", adapter, tools=TOOLS)
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, name, agent=agent, labels={"kept": "yes"}, clock=clock)
        yield Stage(world, clock, session, agent)


async def killed() -> History:
    """Killed in a tool that must not run twice, then in a model call; steered; a second turn, cancelled."""

    async def build(arguments: Mapping[str, Any]) -> object:
        return {"built": dict(arguments)}

    script = [
        _model("look around", _call("look"), _call("build", what="a shed"), _call("refund", cents=100)),
        {"do": "batch", "tools": [_call("book", seat="1a"), _call("charge", cents=5)]},
        _model("all is well"),
    ]
    async with _stage("killed", script, built_ins={"build": BuiltIn(build)}) as stage:
        await stage.session.send("do it", id="in-1")
        await stage.work(NEVER)
        await stage.session.steer("quickly now", id="in-2")
        await stage.session.send("and again", id="in-3")
        await stage.session.cancel(7, id="in-4")
        await stage.work(Spot(Point.IN_EFFECT, "verify"))
        await stage.work(Spot(Point.IN_EFFECT, "model"))
        await stage.work(Spot(Point.BEFORE_START, "never"))
        await stage.session.cancel(2, id="in-5")
        await stage.work()
        return await stage.history(["in-1", "in-2", "in-4"])


async def parked() -> History:
    """A call in doubt, about which a person is asked; the turn stays parked, and another prompt waits."""
    script = [_call("book", seat="9z"), _call("ship")]
    async with _stage("parked", script) as stage:
        await stage.session.send("ship it", id="in-1")
        await stage.work(Spot(Point.IN_EFFECT, "verify"))
        await stage.work(NEVER)
        await stage.session.send("then this", id="in-2")
        await stage.work()
        return await stage.history([])


async def failing() -> History:
    """A harness that fails twice before it ends its turn."""
    failures = 2

    async def model(text: str) -> AsyncGenerator[str, None]:
        nonlocal failures
        yield text[:4]
        if failures:
            failures -= 1
            raise HarnessError(harness="the script", reason="it was told to fail")
        yield text[4:]

    async with _stage("failing", [_model("all is well")], model=model) as stage:
        await stage.session.send("try", id="in-1")
        for _ in range(4):
            await stage.work()
        return await stage.history([])


class Pen:
    """Writes commits by hand."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.packer = Packer("default", set())
        self._named: set[str] = set()

    def write(self, fence: int, *records: AnyRecord, snapshot: bool = False) -> None:
        body = encode_records(records)
        refs = tuple(name for name in record_refs(records) if name not in self._named)
        self._named.update(refs)
        nodes = [name for name in self.packer.blobs if name not in self._named]
        self._named.update(nodes)
        header = Header(
            len(self.commits) + 1, fence, FORMAT, len(records), refs=(*refs, *nodes), snapshot=snapshot
        )
        blobs = {name: self.packer.blobs[name] for name in header.refs}
        self.commits.append(make_commit(header, body, blobs))


def _request(pen: Pen, length: int) -> Payload:
    frame = {"model": "m", "system": "be good"}
    return pen.packer.payload(pen.packer.request(frame, [{"n": at % 8} for at in range(length)]), what="it")


def by_hand() -> History:
    """Every kind of record and every field, also those that no engine writes yet."""
    pen = Pen()
    pen.write(
        0,
        SessionOpened(
            "by-hand",
            "coder",
            "claude-code",
            {"model": "m", "flags": ["-x"]},
            {"kind": "local", "path": "/srv/shop", "host": "host-1"},
            "/srv/shop",
            "/home/coder",
            1.5,
        ),
    )
    prompt = pen.packer.payload("make it so", what="it")
    pen.write(1, AttemptOpened("worker-1", "host-1", {"outlast": "0.1", "claude": "2.1"}, 2.0))
    pen.write(1, PromptQueued("in-1", prompt), PromptQueued("in-2", prompt, steered=True))
    pen.write(1, InputDropped("in-0", "nobody can read it"), TurnOpened(1, "in-1", prompt, 3.0))
    model = CallIntent(
        1,
        1,
        "main",
        0,
        "model",
        "m",
        _request(pen, NODE * NODE + 5),
        "safe",
        match="hash-1",
        runs_in="provider",
        at_s=4.0,
    )
    pen.write(1, model, SteerTaken(1, "in-3", 1, "be quick"))
    pen.write(1, CallRetracted(1, 1, "main", "the answer was cut", Usage(10, 1, 2, 3, 0.25)))
    pen.write(
        1,
        CallOutcome(
            1,
            1,
            "ok",
            pen.packer.payload({"text": "yes " * 4000}, what="it"),
            "main",
            Usage(20, 5),
            1.25,
            5.0,
        ),
    )
    granted: list[CallIntent] = []
    for ordinal, policy in enumerate(("never", "verify", "keyed", "safe")):
        intent = CallIntent(
            call=2 + ordinal,
            turn=1,
            lane="main",
            ordinal=ordinal,
            kind="tool",
            name=f"Tool{ordinal}",
            arguments=pen.packer.payload({"at": ordinal}, what="it"),
            policy=policy,
            on_doubt="ask" if ordinal == 0 else "tell",
            key=f"key-{ordinal}",
            key_until_s=99.0 if policy == "keyed" else 0.0,
            harness_id=f"toolu_{ordinal}",
            runs_in="harness",
            granted=True,
            spawns=policy == "safe",
            asked_by=1,
            at_s=5.0,
        )
        granted.append(intent)
    pen.write(1, *granted)
    pen.write(1, *(CallStarted(intent.call, 1, "main", 6.0) for intent in granted))
    pen.write(
        1, CallIntent(6, 1, "sub1", 0, "model", "m", _request(pen, 3), "safe", match="hash-2", asked_by=5)
    )
    pen.write(1, Mirrored("log/a.jsonl", 0, pen.packer.payload(["one", "two", "three"], what="it"), 3))
    pen.write(1, Mirrored("log/a.jsonl", 2, pen.packer.payload(["drei"], what="it"), 1))
    pen.write(1, AttemptEnded(1, "handed_over", at_s=7.0))
    pen.write(2, AttemptOpened("worker-2", "host-2", {}, 8.0))
    pen.write(
        2, Verdict(3, 1, "unsure", "no answer", "main"), Verdict(4, 1, "not_done"), Verdict(3, 1, "done")
    )
    pen.write(
        2, CallOutcome(2, 1, "in_doubt", pen.packer.payload("perhaps", what="it")), CallOutcome(3, 1, "error")
    )
    pen.write(2, AttemptEnded(1, "failed", "exit status 1"), TurnParked(1, "stuck", {"attempts": 2}, 9.0))
    taken = fold("by-hand", pen.commits)
    pen.write(2, Snapshot(Payload(json=msgspec.Raw(msgspec.json.encode(taken)))), snapshot=True)
    pen.write(
        2, TurnReleased(1, "somebody"), TurnParked(1, "diverged", {"lane": "main"}, 10.0), TurnReleased(1)
    )
    pen.write(
        2,
        CallOutcome(4, 1, "interrupted"),
        CallOutcome(5, 1, "cancelled"),
        CallOutcome(6, 1, "cancelled"),
        TurnSettled(1, "failed", Payload(), "it broke", Usage(30, 6, 2, 3, 0.25), 11.0),
    )
    pen.write(3, AttemptOpened("worker-3"))
    pen.write(3, TurnOpened(2, "in-2", prompt, 12.0), CallIntent(7, 2, "main", 0, "tool", "Again"))
    pen.write(3, TurnParked(2, "decision", {"in_doubt": [7]}))
    return History.of("by-hand", pen.commits, {})


MAKERS: Sequence[Callable[[], Awaitable[History]]] = (killed, parked, failing)


async def main(directory: Path) -> None:
    """Write the histories and what must be read in them."""
    lines = [f'"{name}": {msgspec.json.encode(shape).decode()}' for name, shape in schema().items()]
    (directory / "schema.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    made = [await maker() for maker in MAKERS]
    for history in (*made, by_hand()):
        (directory / f"{history.session}.json").write_bytes(msgspec.json.encode(history) + b"\n")
        (directory / f"{history.session}.expected.json").write_bytes(_pretty(await summary(history)))


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
