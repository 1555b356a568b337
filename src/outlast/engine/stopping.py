"""Stopping tasks that run a user's code, which may not let itself be stopped."""

import asyncio
from collections.abc import Collection
from typing import Any, Final

PATIENCE_S: Final = 10.0
"""How long a task may take to put its things in order: to kill a harness and see it dead, say."""
STUBBORN: Final = "it does not let itself be stopped: something in it swallows every cancellation"
TRIES: Final = 3
"""How often a task is cancelled: code that swallows one cancellation by mistake seldom swallows the next."""


async def stop(tasks: "Collection[asyncio.Task[Any]]") -> bool:
    """Cancel `tasks` and wait for their end, as often as it takes, up to `TRIES` times `PATIENCE_S` seconds.

    Returns whether all have ended. One that has not runs on: whoever stops it must see to it that it can do no harm.
    """
    left = {task for task in tasks if not task.done()}
    for task in tasks:
        if task.done():
            _look_at(task)
        else:
            task.add_done_callback(_look_at)  # also of one that ends when nobody waits for it any more
    for number in range(TRIES):
        for task in left:
            if number or not task.cancelling():  # what was cancelled may be at putting its things in order
                task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=PATIENCE_S)
    return not left


def _look_at(task: "asyncio.Task[Any]") -> None:
    """Take what a task came to, else asyncio logs it, with all the words of its error."""
    if not task.cancelled():
        task.exception()
