"""Harnesses as their users start them, without outlast, and the command line that adopts what they did."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Any

from outlast.testing.adapter_contract.promises import processes_of
from outlast.testing.adapter_contract.stage import Stage
from tests.acceptance.terminals import LIMIT_S


@asynccontextmanager
async def alone(
    stage: Stage, argv: Sequence[str], environ: Mapping[str, str], *, output: IO[bytes] | int
) -> AsyncGenerator["subprocess.Popen[bytes]"]:
    """A program in the directory of the stage's sessions; killed at the end with all that it started."""
    process = subprocess.Popen(  # noqa: ASYNC220 - nothing of it is waited for
        argv,
        env=environ,
        cwd=stage.shop,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        pids = {process.pid, *processes_of(stage.home("nobody"), stage.shop)}
        # All stand still before the first dies: none may hear of another's end and go on.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        process.wait(LIMIT_S)
        process.stdin.close()


def outlast(stage: Stage, *words: str, status: int = 0, **environ: str) -> dict[str, Any]:
    """The last line that a command answers."""
    data = str(stage.data)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "outlast.cli", *words, "--json"],
        env={
            **os.environ,
            "OUTLAST_WORLD": stage.url,
            "OUTLAST_DATA_DIR": data,
            "ANTHROPIC_BASE_URL": stage.models.base_url,
            "ANTHROPIC_API_KEY": "none",
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])
