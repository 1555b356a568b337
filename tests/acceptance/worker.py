"""A worker process that dies at a spot: `python -m tests.acceptance.worker ORDERS`, under its supervisor."""

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec

from outlast import Agent
from outlast.clock import SystemClock
from outlast.engine.deadlines import claim_supervision
from outlast.engine.processes import supervisor_argv
from outlast.gate import OpenGate, Point
from outlast.gateway import Limits, Open, open_gateway
from outlast.ids import new_id
from outlast.opening import open_world
from outlast.testing.faults import Spot, kill_gate
from outlast.worker import WorkerConfig, open_worker
from tests.acceptance.shop import NAME, agent
from tests.acceptance.spoiled import Spoiled, in_a_fresh_home


class Orders(msgspec.Struct, frozen=True):
    """What one worker process is to do."""

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
    recovery_budget: int = agent.recovery_budget

    @classmethod
    def at(cls, spot: Spot) -> dict[str, object]:
        """The fields that say where to die."""
        return {"point": spot.point.value, "policy": spot.policy, "nth": spot.nth}


def orders_argv(orders: Orders) -> list[str]:
    """The command line of a worker with these orders, its supervisor around it."""
    locks = Path(orders.data) / "locks"
    locks.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [sys.executable, "-m", "tests.acceptance.worker", msgspec.json.encode(orders).decode()]
    return supervisor_argv(command, lock=locks / new_id("worker"), ttl_s=orders.lease_s + 20.0)


def agent_of(orders: Orders) -> Agent:
    """The agent that these orders want."""
    adapter = Spoiled(agent.adapter, in_a_fresh_home) if orders.fresh_homes else agent.adapter
    return replace(agent, adapter=adapter, recovery_budget=orders.recovery_budget)


async def work(orders: Orders) -> None:
    """Advance what is ready, until killed."""
    supervision = claim_supervision(os.environ)
    gate = OpenGate()
    if orders.point:
        gate = kill_gate(Spot(Point(orders.point), orders.policy, orders.nth))
    clock = SystemClock()
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
        open_gateway(upstream=Open(orders.upstream), clock=clock, limits=Limits(hello_s=20.0)) as gateway,
        open_worker(world, {NAME: agent_of(orders)}, gateway, config) as worker,
    ):
        print(os.getpid(), flush=True)  # noqa: T201 - its line for whoever started it
        await worker.work()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    anyio.run(work, msgspec.json.decode(sys.argv[1], type=Orders))
