"""The log of a turn of very many calls, written by the engine's own pen many at a time: making them takes minutes."""

from outlast.adapter import Agent
from outlast.codec import Packer, encode_records
from outlast.engine.batch import Batcher
from outlast.engine.load import load
from outlast.engine.writer import Writer
from outlast.records import (
    FORMAT,
    AnyRecord,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    PromptQueued,
    TurnOpened,
)
from outlast.session import Session
from outlast.world import Takeover, WorkerOffer, WorkerRow, World

TOGETHER = 100
"""Calls that land in one commit."""
SINGLE = 500
"""The newest, each of which has a commit of its own, as a loop that runs has it."""
PROMPT = "in-1"


async def write_turn(world: World, session: str, agent: Agent, calls: int, tool: str) -> None:
    """An open turn with so many finished calls of `tool`, a `safe` one, each with its number and the result "done"."""
    await (await Session.open(world, session, agent=agent)).send("go", id=PROMPT)
    world.open_liveness().renew(WorkerRow("scribe", "", 0.0), 3600.0)
    opened = encode_records([AttemptOpened("scribe")])
    claim = await world.claim(
        WorkerOffer("scribe", frozenset({agent.name}), FORMAT), Takeover(opened, 1, FORMAT)
    )
    assert claim is not None
    batcher = Batcher(world)
    writer = Writer(world, batcher, claim, await load(world, claim))
    packer = Packer(world.tenant, set())
    prompt = packer.payload("go", what="the prompt")
    writer.append(PromptQueued(PROMPT, prompt), TurnOpened(1, PROMPT, prompt, 1.0), consumes=[PROMPT])
    result = packer.payload("done", what="the result")
    for number in range(calls):
        arguments = packer.payload({"number": number}, what="the arguments")
        begun_s = 1_790_000_000.0 + number
        records: list[AnyRecord] = [
            CallIntent(
                number + 1, 1, "main", number, "tool", tool, arguments, policy="safe", at_s=begun_s + 0.123
            ),
            CallOutcome(number + 1, 1, "ok", result, "main", duration_s=0.0012, at_s=begun_s + 0.125),
        ]
        writer.append(*records, lazy=True)
        if number % TOGETHER == 0 or number >= calls - SINGLE:
            await writer.flush()
    await writer.flush()
    await world.release(claim.lease)
    await writer.close()
    await batcher.drain()
