"""A World that fails once, at each operation, before it is done or after: turns end rightly, nothing happens twice."""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import cast, get_args

import pytest

from outlast.adapter import Agent, Gateway
from outlast.adapters.scripted import Scripted
from outlast.codec import encode_input
from outlast.errors import WorldUnavailable
from outlast.records import Cancel
from outlast.session import Session
from outlast.testing.faults import FlakyWorld, When
from outlast.tool import Tool, ToolIO, tool
from outlast.worker import WorkerConfig, open_worker
from outlast.world import Input, Limits, World
from outlast.worlds.memory import open_memory
from tests.at_once import at_once
from tests.crash.stage import Witness
from tests.unit.engine_desk import call, say

SCRIPT = [say("one two", call("pay", number=1)), call("pay", number=2), say("three four")]


class Shop:
    """What is outside."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.asked: Counter[str] = Counter()
        self.paid: Counter[int] = Counter()

    async def answer(self, text: str) -> AsyncGenerator[str, None]:
        self.asked[text] += 1
        published = self.witness.published
        first, rest = text.split(" ", 1)
        yield f"{first} "
        await self.witness.until_published(published)
        yield rest

    def pay(self) -> Tool:
        async def pay(io: ToolIO, number: int) -> str:
            """Pay once."""
            self.paid[number] += 1
            io.show("paid")
            return "paid"

        return tool(pay)


async def one_turn(
    world: World, directory: Path, name: str, failures: Mapping[tuple[str, int], When] | None = None
) -> tuple[Shop, FlakyWorld]:
    """A turn that is asked for through a flaky World, and carried through it."""
    witness = Witness(world)
    flaky = FlakyWorld(witness, failures)
    shop = Shop(witness)
    agent = Agent(name, Scripted(script=SCRIPT, model=shop.answer), tools=[shop.pay()])
    session = await persistently(flaky, name, agent)
    # One at a time: a lease that was taken and not answered for must not keep its place for ever.
    config = WorkerConfig(directory, kill_grace_s=0.0, limits=Limits({name: 1}, whole=1))
    async with open_worker(flaky, {name: agent}, cast("Gateway", None), config) as worker:
        await worker.work(until_idle=True)
    plain = await Session.find(world, session)
    assert (await plain.result(1)).value == ["one two", "paid", "paid", "three four"]
    head = await plain.head()
    assert (head.worker, head.turn_open, head.waiting_inputs) == (None, False, 0)
    return shop, flaky


async def persistently(world: World, name: str, agent: Agent) -> str:
    """Open a session and send a prompt as a careful application does: what failed is done again under the same id."""
    while True:
        try:
            session = await Session.open(world, f"s-{name}", agent=agent)
            await session.send("go", id="in-1")
        except WorldUnavailable:
            continue
        return session.id


async def test_each_operation_may_fail_once_before_it_is_done_or_after(tmp_path: Path) -> None:
    async with open_memory() as world:
        _, counted = await one_turn(world, tmp_path, "uncut")
    failures: list[tuple[str, int, When]] = [
        (operation, number, when)
        for operation, times in counted.calls.items()
        for number in range(1, min(times, 8) + 1)
        for when in get_args(When)
    ]
    operations = {"create", "put_input", "claim", "commits", "commit_many", "publish", "inputs"}
    assert operations <= {operation for operation, _, _ in failures}

    async def failing(operation: str, number: int, when: When) -> None:
        try:
            # In a World of its own: what others do would wake its worker, which would ask more often.
            async with open_memory() as world:
                shop, _ = await one_turn(world, tmp_path, "failing", {(operation, number): when})
        except (AssertionError, WorldUnavailable) as wrong:
            wrong.add_note(f"{operation} {number} failed {when} it was done")
            raise
        assert set(shop.paid.items()) == {(1, 1), (2, 1)}, f"{operation} {number} {when}"
        assert set(shop.asked.items()) == {("one two", 1), ("three four", 1)}, f"{operation} {number} {when}"

    await at_once(failing(*failure) for failure in failures)


@pytest.mark.parametrize("when", get_args(When))
async def test_a_lease_is_given_back_though_that_failed_at_first(tmp_path: Path, when: When) -> None:
    async with open_memory() as world:
        flaky = FlakyWorld(world, {("release", 1): when})
        agent = Agent("idle", Scripted(script=SCRIPT))
        session = await Session.open(world, "s", agent=agent)
        await world.put_input("s", Input("late", "d", encode_input(Cancel(7))))
        config = WorkerConfig(tmp_path, kill_grace_s=0.0)
        async with open_worker(flaky, {"idle": agent}, cast("Gateway", None), config) as worker:
            await worker.work(until_idle=True)
            head = await session.head()
        assert (head.worker, head.waiting_inputs, flaky.calls["release"] > 0) == (None, 0, True)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_world_that_is_gone_for_a_while_costs_a_turn_nothing(tmp_path: Path, when: When) -> None:
    async with open_memory() as world:
        gone: dict[tuple[str, int], When] = {
            (operation, number): when for operation in ("commit_many", "inputs") for number in range(2, 6)
        }
        shop, _ = await one_turn(world, tmp_path, "gone", gone)
        assert set(shop.paid.values()) == set(shop.asked.values()) == {1}
