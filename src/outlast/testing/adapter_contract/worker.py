"""A worker process that dies at a spot: `python -m outlast.testing.adapter_contract.worker ORDERS`, supervised."""

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import anyio
import msgspec

from outlast.adapter import Agent
from outlast.clock import SystemClock
from outlast.engine.deadlines import claim_supervision
from outlast.engine.processes import STARTING_S, supervisor_argv
from outlast.gate import OpenGate, Point
from outlast.gateway import Limits, Open, open_gateway
from outlast.ids import new_id
from outlast.opening import open_world
from outlast.testing.adapter_contract.shop import TOOLS
from outlast.testing.adapter_contract.spoiled import Spoiled, in_a_fresh_home
from outlast.testing.adapter_contract.subject import Subject
from outlast.testing.faults import Spot, kill_gate
from outlast.worker import WorkerConfig, open_worker

MODULE: Final = "outlast.testing.adapter_contract.worker"
HELLO_S: Final = 20.0
"""How long a harness's hooks may take to say hello; a loaded machine needs a while to start a large program."""


class Orders(msgspec.Struct, frozen=True):
    """What one worker process is to do."""

    subject: str
    """Its recipe."""
    path: Sequence[str]
    """Where modules are found."""
    world: str
    data: str
    upstream: str
    name: str
    session: str | None = None
    """Advance this session and no other."""
    point: str = ""
    """Where to die; empty: nowhere."""
    policy: str = ""
    nth: int = 1
    lease_s: float = 10.0
    concurrency: int = 16
    fresh_homes: bool = False
    """Each attempt finds nothing of an earlier one, as on another machine."""
    recovery_budget: int | None = None
    """None: the agent's own."""

    @classmethod
    def at(cls, spot: Spot) -> dict[str, object]:
        """The fields that say where to die."""
        return {"point": spot.point.value, "policy": spot.policy, "nth": spot.nth}


def orders_argv(orders: Orders) -> list[str]:
    """The command line of a worker with these orders, its supervisor around it."""
    locks = Path(orders.data) / "locks"
    locks.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [sys.executable, "-m", MODULE, msgspec.json.encode(orders).decode()]
    return supervisor_argv(command, lock=locks / new_id("worker"), ttl_s=orders.lease_s + STARTING_S)


def subject_of(recipe: str) -> Subject:
    """The subject with this recipe."""
    module, _, attribute = recipe.partition(":")
    return cast("Subject", getattr(importlib.import_module(module), attribute))


def agent_of(orders: Orders) -> Agent:
    """The agent that these orders want."""
    agent = subject_of(orders.subject).agent(TOOLS, upstream=orders.upstream)
    adapter = Spoiled(agent.adapter, in_a_fresh_home) if orders.fresh_homes else agent.adapter
    budget = agent.recovery_budget if orders.recovery_budget is None else orders.recovery_budget
    return replace(agent, adapter=adapter, recovery_budget=budget)


async def work(orders: Orders) -> None:
    """Advance what is ready, until killed."""
    supervision = claim_supervision(os.environ)
    gate = OpenGate()
    if orders.point:
        gate = kill_gate(Spot(Point(orders.point), orders.policy, orders.nth))
    clock = SystemClock()
    agent = agent_of(orders)
    config = WorkerConfig(
        data=Path(orders.data),
        lease_s=orders.lease_s,
        concurrency=orders.concurrency,
        supervision=supervision,
        clock=clock,
        gate=gate,
        only=orders.session,
        name=orders.name,
    )
    async with (
        open_world(orders.world) as world,
        open_gateway(upstream=Open(orders.upstream), clock=clock, limits=Limits(hello_s=HELLO_S)) as gateway,
        open_worker(world, {agent.name: agent}, gateway, config) as worker,
    ):
        print(os.getpid(), flush=True)  # noqa: T201 - its line for whoever started it
        await worker.work()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    told = msgspec.json.decode(sys.argv[1], type=Orders)
    sys.path[:] = told.path
    anyio.run(work, told)
