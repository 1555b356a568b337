"""A worker of the LangGraph example that kills itself.

python -m tests.examples.langgraph_office POINT POLICY NTH     (under a supervisor)
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import cast

from examples.langgraph_clerk import clerk
from outlast.adapter import Gateway
from outlast.engine.deadlines import claim_supervision
from outlast.gate import Point
from outlast.opening import open_world
from outlast.testing.faults import Spot, kill_gate
from outlast.worker import WorkerConfig, open_worker


async def main(point: str, policy: str, nth: str) -> None:
    """Work until the point is crossed."""
    spot = Spot(Point(point), policy, int(nth))
    data, supervision = Path(os.environ["OUTLAST_DATA_DIR"]), claim_supervision(os.environ)
    async with open_world() as world:
        config = WorkerConfig(data, supervision=supervision, gate=kill_gate(spot))
        async with open_worker(world, {clerk.name: clerk}, cast("Gateway", None), config) as worker:
            await worker.work(until_idle=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
