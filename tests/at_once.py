"""Many small things of one test, done at the same time: most of each is waiting."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def at_once(things: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What each of them returns, in order. The first that fails ends the others."""
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(thing) for thing in things]
    return [task.result() for task in begun]
