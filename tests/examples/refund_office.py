"""The refund example as real processes see it: an agent that `outlast work` is given, and a worker that kills itself.

    outlast work tests.examples.refund_office:clerk
    python -m tests.examples.refund_office POINT POLICY NTH     (under a supervisor)

What both are told stands in the environment: `REFUND_LEDGER`, `REFUND_POLICY`, `REFUND_ON_DOUBT`.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import cast

from examples.refund import Ledger, support_of
from outlast.adapter import Gateway
from outlast.engine.deadlines import claim_supervision
from outlast.gate import Point
from outlast.opening import open_world
from outlast.records.kinds import OnDoubt, Policy
from outlast.testing.faults import Spot, kill_gate
from outlast.worker import WorkerConfig, open_worker
from tests.examples.clerk import Clerk

clerk = support_of(
    Clerk(),
    Ledger(Path(os.environ.get("REFUND_LEDGER", "ledger.db"))),
    cast("Policy", os.environ.get("REFUND_POLICY", "verify")),
    cast("OnDoubt", os.environ.get("REFUND_ON_DOUBT", "tell")),
)


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
