"""A loop with many finished calls is soon where it was."""

import time

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.clock import ManualClock
from outlast.codec import Packer, encode_records
from outlast.records import (
    FORMAT,
    PLAIN,
    AnyRecord,
    AttemptEnded,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    TurnOpened,
)
from outlast.tool import ToolIO, tool
from outlast.world import Header, Lease, Takeover, WorkerOffer, World
from outlast.world.commit import make_commit
from outlast.worlds.memory import MemoryStore, open_memory
from tests.unit.engine_desk import Desk, opened

BIG = 97
"""Every so manieth result is too long to stand in its record."""
LIMIT_S = 1.0


@tool
async def look(io: ToolIO, at: int) -> str:
    """Look."""
    raise AssertionError("a finished call ran again")


def agent_of(calls: int) -> Agent:
    async def run(io: IO, prompt: str) -> object:
        return [len(await io.tool(look, at=at)) for at in range(calls)][-1]

    return Agent("tester", Loop(run), tools=[look])


async def fill(world: World, calls: int) -> None:
    """The log of a turn whose worker died when so many calls had ended, each in a commit of its own."""
    opening = encode_records([AttemptOpened("worker-1", "here")])
    claim = await world.claim(
        WorkerOffer("worker-1", frozenset({"tester"}), FORMAT), Takeover(opening, 1, PLAIN)
    )
    assert claim is not None
    packer = Packer("default", set())
    prompt = packer.payload("go", what="it")
    await _commit(world, claim.lease, packer, claim.seq + 1, [TurnOpened(1, "in-1", prompt)], "in-1")
    for at in range(calls):
        arguments = packer.payload({"at": at}, what="it")
        result = packer.payload("x" * (9000 if at % BIG == 0 else 100), what="it")
        intent = CallIntent(at + 1, 1, "main", at, "tool", "look", arguments, "never", key=f"key-{at}")
        outcome = CallOutcome(at + 1, 1, "ok", result, "main")
        await _commit(world, claim.lease, packer, claim.seq + 2 + at, [intent, outcome])
    ended = AttemptEnded(1, "waiting")
    await _commit(world, claim.lease, packer, claim.seq + 2 + calls, [ended], release=True)


async def _commit(
    world: World,
    lease: Lease,
    packer: Packer,
    seq: int,
    records: list[AnyRecord],
    *consumes: str,
    release: bool = False,
) -> None:
    body, blobs = encode_records(records), dict(packer.blobs)
    packer.blobs.clear()
    header = Header(
        seq,
        lease.fence,
        FORMAT,
        len(records),
        consumes=consumes,
        refs=tuple(blobs),
        turn_open=True,
        release=release,
    )
    (refused,) = await world.commit_many([(lease, make_commit(header, body, blobs))])
    assert refused is None


async def resume_s(calls: int) -> float:
    """CPU seconds until a new worker has brought such a turn to its end."""
    clock = ManualClock()
    agent = agent_of(calls)
    async with open_memory(MemoryStore(clock)) as world:
        session = await opened(world, agent)
        await fill(world, calls)
        began = time.process_time()
        await Desk(world, clock, name="worker-2").work(agent)
        took = time.process_time() - began
        assert (await session.result(1)).value == (9000 if (calls - 1) % BIG == 0 else 100)
    return took


@pytest.mark.crash
async def test_a_loop_with_ten_thousand_finished_calls_resumes_within_a_second() -> None:
    assert await resume_s(10_000) < LIMIT_S


@pytest.mark.full
@pytest.mark.timeout(300)
async def test_the_time_to_resume_grows_with_the_calls_and_no_faster() -> None:
    few = min([await resume_s(10_000) for _ in range(3)])
    assert await resume_s(100_000) < 10 * few * 1.5
