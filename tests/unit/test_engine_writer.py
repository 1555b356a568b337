"""The pen of an attempt: what it writes, in which order, and when it stops writing."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import pytest

from outlast.adapter import Gateway
from outlast.clock import SystemClock
from outlast.codec import decode_delta, encode_records
from outlast.engine import batch
from outlast.engine.batch import Batcher
from outlast.engine.load import load
from outlast.engine.writer import LAZY_S, RUN_OUT, Writer
from outlast.errors import AttemptLost, BadPayload, LogBroken, WorldUnavailable
from outlast.records import (
    FORMAT,
    PLAIN,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallRetracted,
    InputDropped,
    Payload,
    PromptQueued,
    TurnOpened,
    TurnParked,
)
from outlast.records.events import LiveDelta
from outlast.testing.faults import AroundWorld
from outlast.tool import ToolIO, tool
from outlast.worker import WorkerConfig, open_worker
from outlast.world import Claim, Commit, Delta, Lease, Takeover, WorkerOffer, World
from outlast.worlds.memory import open_memory
from tests.unit.engine_desk import Desk, agent_of, call, opened, records, say, until

T = TypeVar("T")


class Noted(AroundWorld):
    """Keeps what came, in order."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.texts: list[str] = []
        self.batches: list[list[str]] = []

    async def commit_many(self, commits: Sequence[tuple[Lease, Commit]]) -> Sequence[Exception | None]:
        self.batches.append([lease.session for lease, _ in commits])
        await asyncio.sleep(0)  # a round trip
        return await super().commit_many(commits)

    async def publish(self, lease: Lease, after: int, first: int, deltas: Sequence[Delta]) -> None:
        await super().publish(lease, after, first, deltas)
        self.texts.extend(decode_delta(delta.body).text for delta in deltas)


@pytest.fixture
async def world() -> AsyncGenerator[Noted]:
    async with open_memory() as memory:
        yield Noted(memory)


async def claimed(world: World, session: str = "s-1") -> Claim:
    await opened(world, agent_of(()), session)
    offer = WorkerOffer("worker-1", frozenset({"tester"}), FORMAT, only=session)
    body = encode_records([AttemptOpened("worker-1", "here", {}, SystemClock().now())])
    claim = await world.claim(offer, Takeover(body, 1, PLAIN))
    assert claim is not None
    return claim


async def writing(world: World, *, stands: Callable[[], bool] = lambda: True) -> Writer:
    """A writer with a turn and a model call open."""
    claim = await claimed(world)
    writer = Writer(world, Batcher(world), claim, await load(world, claim), stands=stands)
    await writer.write(PromptQueued("in-1", Payload()), TurnOpened(1, "in-1", Payload()), consumes=["in-1"])
    await writer.write(CallIntent(1, 1, "main", 0, "model", "scripted", match="m"))
    return writer


async def test_what_a_retracted_answer_said_is_not_shown_after_its_retraction(world: Noted) -> None:
    writer = await writing(world)
    writer.show(LiveDelta(1, 1, "text", "void", 0))
    writer.append(CallRetracted(1, 1, reason="cut"))
    writer.show(LiveDelta(1, 1, "text", "once ", 0))
    writer.show(LiveDelta(1, 1, "text", "more", 5))
    await writer.flush()
    await until(lambda: world.texts)
    assert world.texts == ["once more"]


async def test_pieces_that_do_not_follow_one_another_stay_apart(world: Noted) -> None:
    writer = await writing(world)
    for text, offset in (("a", 0), ("b", 1), ("again", 0)):
        writer.show(LiveDelta(1, 1, "text", text, offset))
    await until(lambda: world.texts)
    assert world.texts == ["ab", "again"]


async def test_a_record_that_cannot_be_written_is_refused_and_leaves_nothing(world: Noted) -> None:
    writer = await writing(world)
    with pytest.raises(BadPayload):
        writer.append(TurnParked(1, "stuck", {"evidence": object()}))
    with pytest.raises(BadPayload):
        writer.append(InputDropped("in-9", "half \ud800"))
    assert writer.state.turn is not None
    assert writer.state.turn.parked is None
    await writer.write(TurnParked(1, "stuck", {"evidence": "of the kind that is JSON"}))
    assert not any(isinstance(record, InputDropped) for record in await records(world))


async def test_records_out_of_order_are_refused_whole_or_end_the_attempt(world: Noted) -> None:
    writer = await writing(world)
    before = len(await records(world))
    with pytest.raises(LogBroken):
        writer.append(CallOutcome(7, 1, "ok"))
    assert writer.lost is None
    with pytest.raises(LogBroken):
        writer.append(CallOutcome(1, 1, "ok"), CallOutcome(1, 1, "ok"))
    assert writer.lost is not None
    await writer.flush()
    assert len(await records(world)) == before


async def test_a_lease_that_is_not_sure_to_stand_writes_and_shows_nothing(world: Noted) -> None:
    stands = True
    writer = await writing(world, stands=lambda: stands)
    before = len(world.batches)
    stands = False
    writer.show(LiveDelta(1, 1, "text", "never shown", 0))
    with pytest.raises(AttemptLost, match=RUN_OUT):
        writer.append(CallRetracted(1, 1))
    await writer.flush()
    stands = True
    with pytest.raises(AttemptLost):
        writer.append(CallRetracted(1, 1))
    assert len(world.batches) == before
    assert not world.texts


async def test_what_waits_for_the_next_commit_when_an_attempt_is_over_is_not_sent_behind_its_back(
    world: Noted,
) -> None:
    writer = await writing(world)
    landed = writer.append(InputDropped("in-9", "why"), lazy=True)
    sent, loop = len(world.batches), asyncio.get_running_loop()
    due_s = loop.time() + 2 * LAZY_S
    await writer.close()
    with pytest.raises(AttemptLost, match="over"):
        await landed.wait()
    await until(lambda: loop.time() > due_s)
    assert len(world.batches) == sent


async def test_an_attempt_that_is_cancelled_leaves_nothing_to_be_sent(world: Noted) -> None:
    begun = asyncio.Event()

    @tool(replay="safe")
    async def hold(io: ToolIO) -> str:
        """Never end."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = agent_of([call("hold")], hold)
    await opened(world, agent)
    async with Desk(world).working(agent):
        await begun.wait()  # its intent, which nobody waits for, is not sent yet
        sent, loop = len(world.batches), asyncio.get_running_loop()
    due_s = loop.time() + 2 * LAZY_S
    await until(lambda: loop.time() > due_s)
    assert len(world.batches) == sent


async def test_commits_of_many_sessions_share_a_round_trip_one_of_each(world: Noted) -> None:
    batcher = Batcher(world)
    writers: list[Writer] = []
    for number in range(8):
        claim = await claimed(world, f"s-{number}")
        writers.append(Writer(world, batcher, claim, await load(world, claim)))
    world.batches.clear()
    for _ in range(3):
        for writer in writers:
            writer.append(InputDropped("nobody", "a test"))
    await asyncio.gather(*(writer.flush() for writer in writers))
    assert all(len(set(sessions)) == len(sessions) for sessions in world.batches)
    assert max(map(len, world.batches)) == 8
    assert len(world.batches) <= 4


class Gone(AroundWorld):
    """Cannot be written until it is back."""

    gone = False

    async def around(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        if self.gone and operation in {"commit_many", "release", "claim", "publish"}:
            raise WorldUnavailable(world=self.name, reason="a test took it away")
        return await super().around(operation, ask)


async def test_a_world_that_is_gone_for_longer_than_it_is_waited_for_only_delays_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patient in (batch.patiently, Batcher.__init__):
        monkeypatch.setitem(patient.__kwdefaults__ or {}, "patience_s", 0.05)
    async with open_memory() as memory:
        world = Gone(memory)
        paid: list[str] = []

        @tool
        async def pay(io: ToolIO) -> str:
            """Pay, as the World goes."""
            paid.append(io.key)
            world.gone = True
            return "paid"

        agent = agent_of([say("one two"), call("pay"), say("three")], pay)
        session = await opened(memory, agent)
        config = WorkerConfig(tmp_path, kill_grace_s=0.0)
        async with open_worker(world, {"tester": agent}, cast("Gateway", None), config) as worker:
            working = asyncio.get_running_loop().create_task(worker.work())
            await until(lambda: world.gone and not worker.running)
            assert (await memory.get("s-1")).worker == worker.id, "its lease was not given back yet"
            world.gone = False
            async with asyncio.timeout(10):
                outcome = await session.result(1)
            worker.drain()
            await working
    assert outcome.status == "done"
    assert outcome.value[1]["status"] == "in_doubt"
    assert len(paid) == 1
