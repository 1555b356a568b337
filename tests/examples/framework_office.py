"""A worker of the examples made with frameworks that kills itself.

python -m tests.examples.framework_office MODULE POINT POLICY NTH     (under a supervisor)
"""

import asyncio
import importlib
import os
import sys
from pathlib import Path
from typing import cast

from outlast.adapter import Agent, Gateway
from outlast.engine.deadlines import claim_supervision
from outlast.gate import Point
from outlast.opening import open_world
from outlast.testing.faults import Spot, kill_gate
from outlast.worker import WorkerConfig, open_worker


async def main(module: str, point: str, policy: str, nth: str) -> None:
    """Work until the point is crossed."""
    agent: Agent = importlib.import_module(module).clerk
    spot = Spot(Point(point), policy, int(nth))
    data, supervision = Path(os.environ["OUTLAST_DATA_DIR"]), claim_supervision(os.environ)
    async with open_world() as world:
        config = WorkerConfig(data, supervision=supervision, gate=kill_gate(spot))
        async with open_worker(world, {agent.name: agent}, cast("Gateway", None), config) as worker:
            await worker.work(until_idle=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
