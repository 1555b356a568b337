"""The worker that `outlast run` brings along."""

import asyncio
import gc
import subprocess
import sys

import anyio
import pytest

from outlast.cli.companion import let_go

UNREAD = "print('x' * 150_000)"
"""More than asyncio reads ahead, and little enough for the pipe to take the rest."""


def test_what_a_worker_said_unread_leaves_nothing_open_behind_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complaints: list[str] = []

    def note(told: "sys.UnraisableHookArgs") -> None:
        complaints.append(str(told.exc_value))

    monkeypatch.setattr(sys, "unraisablehook", note)

    async def end() -> None:
        process = await anyio.open_process(
            [sys.executable, "-c", UNREAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        await process.wait()
        await let_go(process)

    asyncio.run(end())
    gc.collect()
    assert not complaints
