"""`crashresume` (MIT), a conformance harness for agents that are restarted, holds for a tool that can be verified.

It crashes a subject right after each of its effects, starts it anew, and wants no effect twice, none missing, and the
state that an uncut run ends with.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crashresume import Context, conform  # pyright: ignore[reportMissingTypeStubs] - it has annotations, and no marker
from crashresume.core import InjectedCrash  # pyright: ignore[reportMissingTypeStubs] - the same

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.gate import Point
from outlast.opening import open_world
from outlast.session import Session
from outlast.testing.faults import Killed, MortalWorld
from outlast.tool import Done, NotDone, Tool, ToolIO, Verdict, tool
from tests.unit.engine_desk import Desk

INPUTS = ["order-1", "order-2", "order-3"]


class Subject:
    """One process in the life of a session: the harness makes another after each crash."""

    def __init__(self, context: Context, place: Path, dead: set[str]) -> None:
        self._context = context
        self._url = f"sqlite:{place / context.run_id}.db"
        self._dead = dead
        self._name = f"{context.run_id}-worker-{len(dead)}"
        self._mortal: MortalWorld | None = None
        self._ended: list[Any] = []

    def state(self) -> object:
        return self._ended

    def step(self, order: str) -> None:
        asyncio.run(self._step(order))

    async def cross(self, point: Point, *, call: int = 0, policy: str = "") -> None:
        """The gate of its worker: nothing of a dead process goes on."""
        assert self._mortal is not None
        self._mortal.check()

    async def _step(self, order: str) -> None:
        agent = Agent("shop", Loop(refund_and_write), tools=self._tools())
        async with open_world(self._url) as world:
            session = await Session.open(world, "s-1", agent=agent)
            turn = await session.send(order, id=order)
            self._mortal = MortalWorld(world)
            with suppress(Killed):
                await Desk(self._mortal, gate=self, name=self._name, dead=frozenset(self._dead)).work(agent)
            if self._mortal.dead:
                self._dead.add(self._name)
                raise InjectedCrash(order)
            outcome = await turn.result()
            self._ended.append([outcome.status, outcome.value])

    def _tools(self) -> list[Tool]:
        def act(kind: str, order: str, key: str) -> str:
            try:
                self._context.effect(kind, order, key=key)
            except InjectedCrash:
                assert self._mortal is not None
                self._mortal.die()  # to outlast an exception is news from a tool, and no death
                raise Killed from None
            return f"{kind} {order}"

        def done(kind: str, order: str, key: str) -> Verdict:
            happened = any(effect.key == key for effect in self._context.effects.effects)
            return Done(f"{kind} {order}") if happened else NotDone()

        async def refunded(io: ToolIO, order: str) -> Verdict:
            return done("refund", order, call_of(io))

        async def written(io: ToolIO, order: str) -> Verdict:
            return done("letter", order, call_of(io))

        @tool(verify=refunded)
        async def refund(io: ToolIO, order: str) -> str:
            """Refund an order."""
            return act("refund", order, call_of(io))

        @tool(verify=written)
        async def letter(io: ToolIO, order: str) -> str:
            """Write to the customer."""
            return act("letter", order, call_of(io))

        return [refund, letter]


def call_of(io: ToolIO) -> str:
    """The same in every run of the harness, where `io.key` is another in every session that was ever opened."""
    return f"{io.session}/{io.call}"


async def refund_and_write(io: IO, order: str) -> object:
    return [await io.tool("refund", order=order), await io.tool("letter", order=order)]


@pytest.mark.crash
@pytest.mark.timeout(120)
def test_crashresume_finds_nothing_where_tools_can_be_verified(tmp_path: Path) -> None:
    dead: dict[str, set[str]] = defaultdict(set)
    report = conform(lambda context: Subject(context, tmp_path, dead[context.run_id]), INPUTS)
    assert report.passed, str(report)
    assert report.crash_points == 2 * len(INPUTS)
    assert sum(map(len, dead.values())) == report.crash_points
