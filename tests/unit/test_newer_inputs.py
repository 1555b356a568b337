"""An input that only a newer outlast understands is left for a worker of that, and the session with it."""

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.ids import digest
from outlast.records import FORMAT, InputDropped
from outlast.world import Input, World
from tests.unit.engine_desk import Desk, opened, records


async def loop(io: IO, prompt: str) -> object:
    return await io.wait_for("ci") if prompt == "wait" else prompt


AGENT = Agent("tester", Loop(loop))
NEWER = [
    b'{"kind":"rewind","to":3}',
    b'{"kind":"signal","name":"ci","value":"green","unless":"red"}',
    b'{"kind":"edit","name":"plan","edits":[{"op":"splice"}]}',
]


async def put(world: World, body: bytes) -> None:
    await world.put_input("s-1", Input("newer-1", digest(body), body))


@pytest.mark.parametrize("body", NEWER)
async def test_an_input_of_a_newer_outlast_waits_for_a_newer_worker(world: World, body: bytes) -> None:
    await opened(world, AGENT, "s-1", "one", "two")
    await put(world, body)
    await Desk(world).work(AGENT)
    head = await world.get("s-1")
    assert (head.format, head.worker, head.waiting_inputs) == (FORMAT + 1, None, 1)
    assert [new.body for new in await world.inputs("s-1")] == [body], "nothing of it was acted on or lost"
    assert not head.turn_open, "no turn began that a newer worker might have to end"


async def test_a_turn_that_waits_is_given_back_for_a_newer_worker_to_end(world: World) -> None:
    await opened(world, AGENT, "s-1", "wait")
    await Desk(world).work(AGENT)
    await put(world, NEWER[1])
    await Desk(world).work(AGENT)
    head = await world.get("s-1")
    assert (head.format, head.worker, head.turn_open, head.waiting_inputs) == (FORMAT + 1, None, True, 1)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"kind":7}', b"\xff", b"\x28\xb5\x2f\xfd torn"])
async def test_bytes_that_are_no_input_are_dropped_and_the_turn_ends(world: World, body: bytes) -> None:
    session = await opened(world, AGENT)
    await put(world, body)
    await Desk(world).work(AGENT)
    assert (await session.result(1)).value == "go"
    assert [record.input for record in await records(world) if isinstance(record, InputDropped)] == [
        "newer-1"
    ]
