"""Made `v1/extra-loop.json`: `python -m tests.histories.make_v1_loops DIRECTORY`.

A loop of one's own with everything that it can wait for. Kept to show where the file comes from; see `make_v1`.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.clock import ManualClock
from outlast.codec import encode_input, encode_records
from outlast.errors import NothingCame, ToolError
from outlast.fold import fold
from outlast.gate import Point
from outlast.model import Answer, AssistantMessage, Request, Show, TextPart, quiet, user
from outlast.records import (
    FORMAT,
    AnyInput,
    CallStarted,
    Decision,
    Payload,
    Retry,
    Signal,
    Snapshot,
    Usage,
)
from outlast.records.kinds import Ruling
from outlast.session import Session
from outlast.testing.faults import Spot
from outlast.tool import Tool, ToolFailed, ToolIO, tool
from outlast.world.commit import Commit, Header, make_commit
from outlast.worlds.memory import open_memory
from tests.histories.make_v1 import Stage
from tests.histories.stored import History, summary

SESSION = "extra-loop"
DAY_S = 86_400.0
STRUCK = Spot(Point.AFTER_EFFECT, "never")


@tool
async def refund(io: ToolIO, cents: int) -> str:
    """Refund."""
    return f"refunded {cents}"


@tool(on_doubt="ask")
async def wire(io: ToolIO, cents: int) -> str:
    """Wire."""
    return f"wired {cents}"


@tool(replay="safe")
async def refuse(io: ToolIO) -> str:
    """Refuse."""
    raise ToolFailed("no")


TOOLS: Sequence[Tool] = (refund, wire, refuse)


class Echo:
    """A model that says what it was told."""

    name = "echo-1"
    provider = "tests"
    context_tokens = 0

    def versions(self) -> dict[str, str]:
        return {}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        return Answer(
            message=AssistantMessage((TextPart(f"{len(request.messages)} heard"),)),
            stop="end",
            usage=Usage(100, 7, cost_usd=0.25),
        )


async def waiting(lane: IO) -> object:
    """Signals, one of which came before, and a time that is over first."""
    early = await lane.wait_for("paid")
    late = await lane.wait_for("shipped", timeout_s=30 * DAY_S)
    try:
        return [early, late, await lane.wait_for("returned", timeout_s=DAY_S)]
    except NothingCame as error:
        return [early, late, str(error)]


async def paying(lane: IO) -> object:
    """Three payments; a person must say of each what became of it."""
    told: list[object] = []
    for cents in (1, 2, 3):
        try:
            told.append(await lane.tool(wire, cents=cents))
        except ToolError as error:
            told.append(str(error))
    return told


async def first(io: IO, prompt: str) -> object:
    """The code with which the turn begins."""
    born = [await io.now(), await io.random(), await io.uuid(), await io.once("ten", lambda: 10)]
    said = (await io.model(Echo(), [user(prompt)])).message.text
    answers = [await io.ask("May I?", choices=["yes", "no"])]
    try:
        answers.append(await io.ask("Sure?"))
    except ToolError as error:
        answers.append(str(error))
    await io.sleep(3 * DAY_S)
    both = await io.gather(waiting, paying)
    try:
        await io.tool(refuse)
    except ToolError as error:
        both.append(str(error))
    return [born, said, answers, both, await io.patched("v2"), await io.tool(refund, cents=5)]


async def astray(io: IO, prompt: str) -> object:
    """Code that makes other calls."""
    return await io.tool(refund, cents=6)


async def second(io: IO, prompt: str) -> object:
    """A turn that is left as it stands: a call that may run again, and two waits."""

    async def wired(lane: IO) -> object:
        return await lane.tool(wire, cents=9)

    return await io.gather(
        lambda lane: lane.wait_for("never"), lambda lane: lane.ask("Well?", timeout_s=DAY_S), wired
    )


class LoopStage(Stage):
    """One session, whose code may be changed."""

    async def play(self, function: LoopFunction, spot: Spot | None = None) -> None:
        self._agent = Agent("tester", Loop(function), tools=TOOLS)
        await self.work(spot)

    async def struck_and_parked(self, function: LoopFunction) -> None:
        """A worker dies in a payment, and the next parks the turn for a person."""
        await self.play(function, STRUCK)
        await self.play(function)

    async def decide(self, name: str, ruling: Ruling, value: object) -> None:
        """A person's word about the payment that is in doubt."""
        state = await self.session.state()
        assert state.turn is not None
        (call,) = [call.intent.call for call in state.turn.open_calls() if call.intent.name == "wire"]
        await self.session.decide(call, ruling, value, by="ann", id=name)


@asynccontextmanager
async def _stage() -> AsyncGenerator[LoopStage]:
    clock = ManualClock()
    agent = Agent("tester", Loop(first), tools=TOOLS)
    async with open_memory(clock=clock) as world:
        session = await Session.open(world, SESSION, agent=agent, clock=clock)
        yield LoopStage(world, clock, session, agent)


async def looped() -> History:
    """The whole story."""
    async with _stage() as stage:
        session, clock = stage.session, stage.clock
        await session.signal("paid", {"cents": 100, "note": "thanks " * 2000}, id="sig-paid")
        await session.send("go", id="in-1")
        await stage.play(first)
        await session.decide(7, "done", "yes", by="ann", id="dec-1")  # after four values and a model call
        await session.decide(6, "done", "yes", by="ann", id="dec-2")
        await stage.play(first)
        await session.decide(7, "failed", "ask again", by="bob", id="dec-3")
        await stage.play(first)
        clock.turn(3 * DAY_S)
        await stage.play(astray)
        await session.retry(1, by="ann", id="retry-1")
        await stage.struck_and_parked(first)
        rulings: tuple[tuple[Ruling, object], ...] = (
            ("run_again", None),
            ("done", {"wired": 1}),
            ("failed", "the bank says no"),
        )
        for ruling, value in rulings:
            await stage.decide(f"dec-{ruling.replace('_', '-')}", ruling, value)
            await stage.struck_and_parked(first)
        await session.signal("shipped", "at last", id="sig-shipped")
        await stage.decide("dec-4", "run_again", None)
        await stage.play(first)
        clock.turn(2 * DAY_S)
        await stage.play(first)
        assert (await session.head()).status.startswith("turn 1 done"), (await session.head()).status
        await session.send("once more", id="in-2")
        await stage.struck_and_parked(second)
        await session.signal("other", 1, id="sig-other")
        await stage.decide("dec-last", "run_again", None)
        await stage.play(second, Spot(Point.FOLDED))
        return await _history(stage)


async def _history(stage: LoopStage) -> History:
    commits = list(await stage.world.commits(SESSION))
    names = [name for commit in commits for name in commit.header.refs]
    blobs = await stage.world.get_many(SESSION, names)
    whole = [replace(commit, blobs={name: blobs[name] for name in commit.header.refs}) for commit in commits]
    whole += _snapshot_behind(whole)
    inputs: dict[str, AnyInput] = {
        "sig-1": Signal("paid", {"cents": 100}, 1.0),
        "dec-1": Decision(7, "run_again", None, "ann", 2.0),
        "dec-2": Decision(7, "done", {"cents": 100}, "ann", 3.0),
        "retry-1": Retry(1, "ann", 4.0),
    }
    return History.of(SESSION, whole, {name: encode_input(value) for name, value in inputs.items()})


def _snapshot_behind(commits: Sequence[Commit]) -> list[Commit]:
    """A snapshot with all that waits, by hand since no engine takes one within a turn, and what comes after it."""
    seq, fence = commits[-1].header.seq, commits[-1].header.fence
    state = Payload(json=msgspec.Raw(msgspec.json.encode(fold(SESSION, commits))))
    taken, started = encode_records([Snapshot(state)]), encode_records([CallStarted(20, 2, "main.0.2")])
    return [
        make_commit(Header(seq + 1, fence, FORMAT, 1, turn_open=True, snapshot=True), taken),
        make_commit(Header(seq + 2, fence, FORMAT, 1, turn_open=True), started),
    ]


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = await looped()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
