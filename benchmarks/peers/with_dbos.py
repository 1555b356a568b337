"""DBOS: asynchronous steps of a workflow.

Promised per step: its outcome is committed before the next begins. Its beginning is not written down, so that after a
crash a step that had begun runs again, whatever it did; one commit.
"""

import asyncio
import os
import time

from dbos import DBOS
from telling import LONG, SESSIONS, STEPS, Pace, repeats, text, url

pace = Pace()
DBOS(
    config={
        "name": "bench",
        "system_database_url": url().replace("postgres://", "postgresql+psycopg://"),
        "log_level": "ERROR",
        "application_version": "1",
    }
)


@DBOS.step()
async def step(number: int) -> str:
    pace.step()
    return text(number)


@DBOS.workflow()
async def flow(steps: int) -> int:
    for number in range(steps):
        await step(number)
    return steps


async def main() -> None:
    for _ in range(repeats() + 1):
        await flow(LONG)
        pace.sequence()
        began_s = time.perf_counter()
        handles = [await DBOS.start_workflow_async(flow, STEPS) for _ in range(SESSIONS)]
        await asyncio.gather(*[handle.get_result() for handle in handles])
        pace.many(began_s)


DBOS.launch()
asyncio.run(main())
pace.tell("dbos")
os._exit(0)  # its threads go on otherwise
