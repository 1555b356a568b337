"""What the interrupts of a graph wait for: a person, a signal, some time."""

# LangGraph ships no marker that it is typed, and gives the value of an interrupt no type.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langgraph.types import Interrupt

from outlast.adapters.io import IO
from outlast.codec import to_json


async def answers(
    io: IO, rewind: Callable[[str], None], interrupts: Sequence[Interrupt]
) -> Mapping[str, Any]:
    """What came first of all that interrupts wait for, by their ids. The graph comes to the rest again.

    Args:
        rewind: `outlast.adapter.Calls.rewind`.
    """
    came: dict[str, Any] = {}
    failed: list[Exception] = []
    some, taken = asyncio.Event(), asyncio.Event()

    def job_of(one: Interrupt) -> Callable[[IO], Awaitable[None]]:
        async def job(lane: IO) -> None:
            try:
                came[one.id] = await waiter(one.value)(lane)
            except Exception as error:  # noqa: BLE001 - raised below
                failed.append(error)
            some.set()
            await taken.wait()  # until the others are withdrawn: else the turn would do nothing but wait

        return job

    async with asyncio.TaskGroup() as tasks:
        waits = {one.id: tasks.create_task(io.beside(f"ask:{one.id}", job_of(one))) for one in interrupts}
        await some.wait()
        left = [id_ for id_ in waits if id_ not in came]
        for id_ in left:
            waits[id_].cancel()
        await asyncio.gather(*(waits[id_] for id_ in left), return_exceptions=True)
        for id_ in left:  # they are in the log, and come to again
            rewind(f"{io.lane}.ask:{id_}")
        taken.set()
    if failed:
        raise failed[0]
    return came


def waiter(value: Any) -> Callable[[IO], Awaitable[Any]]:
    """How to wait for what an interrupt wants."""

    async def wait(lane: IO) -> Any:
        known: dict[str, Any] = value if isinstance(value, dict) else {}
        if known.keys() == {"signal"}:
            return await lane.wait_for(str(known["signal"]))
        if known.keys() == {"sleep"}:
            await lane.sleep(float(known["sleep"]))
            return True
        question = value if isinstance(value, str) else to_json(value, what="An interrupt").decode()
        return await lane.ask(question)

    return wait
