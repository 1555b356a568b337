"""The commands of a site: each begun once, none while files are looked at, and none forgotten that was cancelled."""

import asyncio
import gc

import anyio
import pytest

from outlast.workspace import Command, Ran
from outlast.workspaces.runs import Runs

RAN = Ran(0, "out", "")


async def _at_once() -> Ran:
    return RAN


async def test_a_command_that_is_cancelled_before_it_began_was_not_begun() -> None:
    runs = Runs()
    async with runs.still():
        waiting = asyncio.get_running_loop().create_task(runs.run(Command("true", "job"), _at_once))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not runs.has("job")
    with anyio.fail_after(5):
        assert await runs.run(Command("true", "job"), _at_once) == RAN
        async with runs.still():
            pass


async def test_whoever_waits_for_a_command_that_is_cancelled_is_cancelled_and_nobody_is_blamed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = Runs()
    first = asyncio.get_running_loop().create_task(
        runs.run(Command("sleep", "job"), lambda: asyncio.sleep(30, RAN))
    )
    await asyncio.sleep(0)
    second = asyncio.get_running_loop().create_task(runs.run(Command("sleep", "job"), _at_once))
    await asyncio.sleep(0)
    first.cancel()
    for one in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await one
    alone = asyncio.get_running_loop().create_task(
        runs.run(Command("sleep", "other"), lambda: asyncio.sleep(30, RAN))
    )
    await asyncio.sleep(0)
    alone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await alone
    del first, second, alone
    gc.collect()
    await asyncio.sleep(0)
    assert not caplog.records
