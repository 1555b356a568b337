"""A worker process that dies at a spot: `python -m outlast.testing.adapter_contract.worker ORDERS`, supervised."""

import importlib
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio
import msgspec

from outlast.adapter import Agent
from outlast.clock import SystemClock
from outlast.engine.deadlines import claim_supervision
from outlast.gate import OpenGate, Point
from outlast.gateway import Limits, Open, open_gateway
from outlast.opening import open_world
from outlast.testing.adapter_contract.orders import HELLO_S, Orders
from outlast.testing.adapter_contract.shop import TOOLS
from outlast.testing.adapter_contract.spoiled import Spoiled, in_a_fresh_home
from outlast.testing.adapter_contract.subject import Subject
from outlast.testing.faults import Spot, kill_gate
from outlast.worker import WorkerConfig, open_worker


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
