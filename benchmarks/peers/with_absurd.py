"""Absurd: steps of a task; many of them in eight asynchronous workers of one process, each with a connection of its
own, which is the fastest way found.

Promised per step: its outcome is committed before the next begins, by a stored procedure that also extends the claim.
Its beginning is not written down, so that after a crash a step that had begun runs again; one commit, after a look-up.
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from absurd_sdk import AsyncAbsurd
from telling import LONG, SESSIONS, STEPS, Pace, repeats, text, url

pace = Pace()
WORKERS = 8
database = url().replace("postgres://", "postgresql://")
control = str(Path(sys.executable).parent / "absurdctl")
for words in (["init"], ["create-queue", "default"]):
    environ = {**os.environ, "ABSURD_DATABASE_URL": database, "PGDATABASE": database}
    subprocess.run([control, *words], env=environ, check=True, stdout=subprocess.DEVNULL)


async def flow(params: dict[str, Any], context: Any) -> dict[str, Any]:
    for number in range(params["steps"]):

        async def step(number: int = number) -> str:
            pace.step()
            return text(number)

        await context.step(f"step-{number}", step)
    return {}


def worker() -> AsyncAbsurd:
    """With a connection of its own."""
    app = AsyncAbsurd(database)
    app.register_task("flow")(flow)
    return app


async def main() -> None:
    client, workers = worker(), [worker() for _ in range(WORKERS)]
    for _ in range(repeats() + 1):
        await client.spawn("flow", {"steps": LONG})
        await client.work_batch()
        pace.sequence()
        spawned = [await client.spawn("flow", {"steps": STEPS}, queue="default") for _ in range(SESSIONS)]
        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for each in workers:
                tasks.create_task(each.start_worker(poll_interval=0.01))
            for task in spawned:
                await client.await_task_result(task["task_id"])
            pace.many(began_s)
            for each in workers:
                each.stop_worker()


asyncio.run(main())
pace.tell("absurd-sdk")
