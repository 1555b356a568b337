"""A worker in a process of its own, that is killed or stopped at a spot. What it does to the outside stands in a file.

    python driver.py ORDERS      (JSON, see `Orders`; under a supervisor or alone)

It says `ready` when its leases stand, waits for a line, then works. A victim says `claimed` when it has its session and
waits for another line, so that whoever kills it can have everybody in place.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.adapter import Agent, Attempt, Gateway, TurnResult, Waiting
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.engine.batch import patiently
from outlast.engine.deadlines import claim_supervision
from outlast.fold import records_of
from outlast.gate import Gate, OpenGate, Point
from outlast.model import Answer, AssistantMessage, Request, Show, TextPart, UserMessage, quiet, user
from outlast.notify import Notice
from outlast.opening import open_world
from outlast.records import CallIntent, CallOutcome, CallStarted
from outlast.session import Session
from outlast.testing.faults import AroundWorld, Spot, StrikingGate
from outlast.tool import Done, NotDone, Tool, ToolIO, Unsure, Verdict, result_text, tool
from outlast.worker import WorkerConfig, open_worker
from outlast.world import Claim, Takeover, WorkerOffer, World
from outlast.worlds.postgres import PostgresWorld
from outlast.worlds.postgres.database import Rows, Value
from outlast.worlds.postgres.pool import Pool
from outlast.worlds.sqlite import SqliteWorld
from tests.crash.coding import NoGateway, coder, watcher


class Orders(msgspec.Struct, frozen=True):
    """What a driver is told."""

    world: str
    """Its URL."""
    data: str
    ledger: str
    """What happened outside, one JSON object a line."""
    name: str
    only: str | None = None
    hold: str = ""
    """While this file exists it claims nothing."""
    strike: str = ""
    """`SIGKILL` or `SIGSTOP`, at the spot; `supervisor`: SIGKILL of the worker's supervisor; or `write`: SIGSTOP in the
    middle of the next write to the World."""
    spot: tuple[str, str, int] = ("", "", 1)
    """Point, policy and how often; without a point: the n-th crossing of any, counted from 0."""
    lease_s: float = 10.0
    kill_grace_s: float = 2.0
    key_ttl_s: float = 0.0
    unsure: bool = False
    """Its `verify` finds nothing out."""
    loop: bool = False
    """It carries a loop of one's own, and no script."""
    tells: bool = False
    """It notifies somebody: what it told stands in the ledger."""
    family: bool = False
    """That loop spawns sessions, which it carries too, and begins again."""


class Ledger:
    """Appends to the file, each line whole, and reads it."""

    def __init__(self, path: str, worker: str) -> None:
        self._path = path
        self._worker = worker

    def note(self, session: str, **facts: object) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, msgspec.json.encode({"session": session, "worker": self._worker, **facts}) + b"\n")
        os.close(fd)

    def has(self, session: str, tag: str) -> bool:
        lines = Path(self._path).read_bytes().splitlines() if Path(self._path).exists() else []
        found = [msgspec.json.decode(line, type=dict[str, str]) for line in lines]
        return any(facts["session"] == session and facts.get("tag") == tag for facts in found)


class Teller:
    """Notifies somebody, who keeps it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def tell(self, notice: Notice) -> str:
        self._ledger.note(notice.session, told=f"{notice.id} {notice.event} {notice.status}")
        return ""


class Patient(AroundWorld):
    """Claims nothing while a file exists."""

    def __init__(self, world: World, hold: str) -> None:
        super().__init__(world)
        self._hold = Path(hold) if hold else None

    async def claim(self, offer: WorkerOffer, takeover: Takeover) -> Claim | None:
        if self._hold is not None and self._hold.exists():
            return None
        return await super().claim(offer, takeover)


UNDER_WAY: ContextVar[Attempt | None] = ContextVar("UNDER_WAY", default=None)


class Watched(Scripted):
    """Lets its models and tools see which attempt they belong to."""

    async def advance(self, attempt: Attempt) -> TurnResult:
        UNDER_WAY.set(attempt)
        return await super().advance(attempt)


class WatchedLoop(Loop):
    """Lets its models see which attempt they belong to."""

    async def advance(self, attempt: Attempt) -> TurnResult | Waiting:
        UNDER_WAY.set(attempt)
        return await super().advance(attempt)


class Outside:
    """The models and tools of this process."""

    def __init__(self, orders: Orders, world: World) -> None:
        self.orders = orders
        self.world = world
        self.ledger = Ledger(orders.ledger, orders.name)
        self.adapter = Watched(model=self.answer, built_ins={"built_in": BuiltIn(self.built_in)})

    def agents(self) -> dict[str, Agent]:
        """By name."""
        helper = Agent("helper", WatchedLoop(self.help_out), tools=self.tools())
        return {"tester": self.agent(), "helper": helper, "coder": coder(), "watcher": watcher()}

    def agent(self) -> Agent:
        if self.orders.family:
            return Agent("tester", WatchedLoop(self.delegate), tools=self.tools())
        if self.orders.loop:
            return Agent("tester", WatchedLoop(self.run), tools=self.tools())
        return Agent("tester", self.adapter, tools=[*self.tools(), tool(replay="safe")(self.nudge)])

    def tools(self) -> list[Tool]:
        async def act(io: ToolIO, tag: str) -> str:
            """Do something outside."""
            return await self.act(io, tag)

        async def verify(io: ToolIO, tag: str) -> Verdict:
            if self.orders.unsure:
                return Unsure("nobody knows")
            return Done(f"{tag} done") if self.ledger.has(io.session, tag) else NotDone()

        return [
            tool(name="never")(act),
            tool(name="safe", replay="safe")(act),
            tool(name="keyed", replay="keyed", key_ttl_s=self.orders.key_ttl_s)(act),
            tool(name="verify", verify=verify)(act),
        ]

    async def run(self, io: IO, prompt: str) -> object:
        """The loop: calls of every policy, lanes, and waits for a signal and for time."""
        told: list[object] = [await self.think(io, "think about it"), await io.uuid()]
        told += [await self.told(io, name) for name in ("never", "verify", "keyed")]

        async def waits(lane: IO) -> list[object]:
            return [await self.told(lane, "safe"), await lane.wait_for("ci")]

        async def sleeps(lane: IO) -> list[object]:
            await lane.sleep(0.2)
            return [await self.told(lane, "never", 2)]

        told += await io.gather(waits, sleeps)
        return [*told, await self.think(io, "look again"), await self.think(io, "all is well")]

    async def delegate(self, io: IO, prompt: str) -> object:
        """A loop that spawns, begins again, and spawns two at once."""
        if io.state is None:
            await io.continue_as_new([await io.spawn("helper", "verify")])
        both = await io.gather(
            lambda lane: lane.spawn("helper", "keyed"), lambda lane: lane.spawn("helper", "never")
        )
        return [*io.state, *both]

    async def help_out(self, io: IO, prompt: str) -> object:
        """What it spawns."""
        return await self.told(io, prompt)

    async def told(self, io: IO, name: str, number: int = 1) -> str:
        """What a call of the tool ended with, in doubt too."""
        return result_text((await io.result(name, {"tag": f"{name}-{number}"})).value)

    async def think(self, io: IO, text: str) -> str:
        return (await io.model(Answering(self), [user(text)])).message.text

    async def answer(self, text: str) -> AsyncGenerator[str, None]:
        session = self._session()
        self.ledger.note(session, asked=text)
        for record in await self._log(session):
            if isinstance(record, CallOutcome) and text.encode() in bytes(record.result.json):
                self.ledger.note(session, wrong=f"the finished model call {text!r} was made again")
        first, rest = text.split(" ", 1)
        yield f"{first} "
        async with self.world.subscribe(session) as hints:
            while not await self._is_open(session):  # as slow as a model is: its intent is in the log by now
                await hints.wait(0.05)
        yield rest

    async def _is_open(self, session: str) -> bool:
        """A model call is open, as far as the log knows."""
        log = await self._log(session)
        settled = {record.call for record in log if isinstance(record, CallOutcome)}
        intents = [record for record in log if isinstance(record, CallIntent) and record.kind == "model"]
        return any(record.call not in settled for record in intents)

    async def act(self, io: ToolIO, tag: str) -> str:
        self.ledger.note(io.session, tag=tag, key=io.key)
        begun = False
        for record in await self._log(io.session):
            if isinstance(record, CallOutcome) and record.call == io.call:
                self.ledger.note(io.session, wrong=f"the finished call {tag!r} was made again")
            if isinstance(record, CallIntent | CallStarted) and record.call == io.call:
                begun = True
        if not begun and not tag.startswith("safe"):
            self.ledger.note(io.session, wrong=f"{tag!r} took effect before its intent was durable")
        io.show(f"{tag} done")
        return f"{tag} done"

    async def nudge(self, io: ToolIO, tag: str) -> str:
        """Somebody steers meanwhile; the attempt gets to know of it."""
        session = await Session.find(self.world, io.session)
        await session.steer("mind the gap", id="steer-1")
        attempt = UNDER_WAY.get()  # none while the recovery runs it
        if attempt is not None and io.turn == 1:
            async for _ in attempt.steers.arrivals():
                break
        return f"{tag} done"

    async def built_in(self, arguments: Mapping[str, Any]) -> str:
        self.ledger.note(self._session(), tag=arguments["tag"])
        return f"{arguments['tag']} done"

    def _session(self) -> str:
        attempt = UNDER_WAY.get()
        assert attempt is not None
        return attempt.session

    async def _log(self, session: str) -> list[Any]:
        commits = await patiently(partial(self.world.commits, session))
        return [record for commit in commits for record in records_of(session, commit)]


class Answering:
    """The model of a loop: it says what it is asked."""

    name = "m-1"
    provider = "tests"
    context_tokens = 0

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def versions(self) -> Mapping[str, str]:
        return {}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        said = request.messages[-1]
        assert isinstance(said, UserMessage)
        (part,) = said.parts
        assert isinstance(part, TextPart)
        pieces: list[str] = []
        async for piece in self._outside.answer(part.text):
            show("text", piece)
            pieces.append(piece)
        return Answer(message=AssistantMessage((TextPart("".join(pieces)),)), stop="end")


class Countdown:
    """Strikes at the n-th crossing of any point, counted from 0."""

    def __init__(self, left: int, strike: Callable[[], None]) -> None:
        self._left = left
        self._strike = strike

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        if self._left == 0:
            self._strike()
        self._left -= 1


class Announced:
    """Says when the session is claimed, and goes on when told to."""

    def __init__(self, inner: Gate) -> None:
        self._inner = inner
        self._said = False

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        if not self._said:
            self._said = True
            await say("claimed")
        await self._inner.cross(point, call=call, policy=policy)


def tell(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def say(word: str) -> None:
    """Say it and wait for a line; the end of the input ends the process."""
    tell(word)
    if not await asyncio.to_thread(sys.stdin.readline):
        os._exit(0)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def stop_in_write(world: World) -> None:
    """Stop this process in its next write, while it holds what a write holds."""
    match world:
        case SqliteWorld() if world.store.writer is not None:
            world.store.writer.write(lambda _: stop())
        case PostgresWorld():
            _stop_in_transaction(world.store.pool)
        case _:
            raise AssertionError(f"no way is known to stop in a write to {world.name}")


def _stop_in_transaction(pool: Pool) -> None:
    real = pool.rows

    async def rows(statement: str, *bindings: Value) -> Rows:
        if "insert into" not in statement:
            return await real(statement, *bindings)
        pool.rows = real
        async with pool.transaction() as connection:
            found = await connection.fetch(statement, *bindings)
            stop()
            return found

    pool.rows = rows


def gate_of(orders: Orders, world: World) -> Gate:
    if not orders.strike:
        return OpenGate()
    point, policy, nth = orders.spot

    def strike() -> None:
        match orders.strike:
            case "SIGKILL":
                os.kill(os.getpid(), signal.SIGKILL)
            case "SIGSTOP":
                stop()
            case "supervisor":
                os.kill(os.getppid(), signal.SIGKILL)
                signal.pause()  # and nothing more: its own death is on its way
            case _:
                stop_in_write(world)

    if not point:
        return Announced(Countdown(nth, strike))
    return Announced(StrikingGate(Spot(Point(point), policy, nth), strike, before=_struck))


async def _struck(_: int) -> None:
    tell("struck")


async def main() -> None:
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    supervision = claim_supervision(os.environ)
    async with open_world(orders.world) as store:
        world = Patient(store, orders.hold)
        outside = Outside(orders, world)
        config = WorkerConfig(
            Path(orders.data),
            name=orders.name,
            lease_s=orders.lease_s,
            supervision=supervision,
            only=orders.only,
            gate=gate_of(orders, store),
            kill_grace_s=orders.kill_grace_s,
            notifier=Teller(outside.ledger) if orders.tells else None,
        )
        async with open_worker(world, outside.agents(), cast("Gateway", NoGateway()), config) as worker:
            await say("ready")
            await worker.work()
        tell("lost" if worker.lost else "drained")


if __name__ == "__main__":
    asyncio.run(main())
