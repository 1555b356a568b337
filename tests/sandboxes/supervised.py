"""A worker under a real supervisor that holds a box: a program for the tests that kill it."""

import os
import sys
from functools import partial
from pathlib import Path

import anyio

from outlast.engine.deadlines import claim_supervision, write_spared
from outlast.sandbox import JobAsk, Spec
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap


async def hold(data: str, name: str, line: str, spared: str) -> None:
    supervision = claim_supervision(os.environ)
    assert supervision is not None
    spare = partial(write_spared, supervision.deadline_fd) if spared == "spared" else None
    spec = Spec(name, idle_s=60, spare=spare, env={"OUTLAST_TEST_GROUND": name})
    async with Bubblewrap(Path(data)).attach(spec, 1) as box:
        await box.begin(JobAsk("command", ["sh", "-c", line]))
        await box.begin(JobAsk("harness", ["sleep", "600"], tied=True))
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    _, data_, name_, line_, spared_ = sys.argv
    anyio.run(hold, data_, name_, line_, spared_)
