"""Stopping tasks: whatever they come to is looked at, also when whoever stops them is stopped."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from outlast.engine.stopping import stop
from tests.gateway.reference import until


def _begun(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.create_task(work)  # noqa: TID251 - what is tested here is how such tasks are ended


async def _fails_when_cancelled(begun: asyncio.Event, go_on: asyncio.Event) -> None:
    try:
        begun.set()
        await asyncio.Event().wait()
    finally:
        await go_on.wait()
        msg = "a secret of the user's"
        raise ValueError(msg)


async def test_a_task_that_fails_after_whoever_stops_it_was_cancelled_tells_the_log_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    task = _begun(_fails_when_cancelled(begun, go_on))
    await begun.wait()
    stopping = _begun(stop([task]))
    await until(task.cancelling)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    go_on.set()
    await asyncio.wait([task])
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert "secret" not in caplog.text


async def test_tasks_that_have_ended_are_not_waited_for_and_their_errors_are_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    go_on.set()
    task = _begun(_fails_when_cancelled(begun, go_on))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert await stop([task])
    del task
    gc.collect()
    assert not caplog.records
