"""What comes out of task groups: the errors themselves, not groups around them."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import cast

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def task_group() -> AsyncGenerator[TaskGroup]:
    """Like `anyio.create_task_group`, for a block whose errors others must recognise by their type.

    A task that fails cancels the block, and its error is raised; if several fail, all are, in a group. If they say all
    the same, one is: they have found out the same thing at once.
    """
    raised: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            except BaseException as error:
                raised = error
                raise
    except BaseExceptionGroup as group:
        if raised is not None and not isinstance(raised, anyio.get_cancelled_exc_class()):
            raise raised from raised.__cause__
        match group.exceptions:
            case (only, *others) if all(_alike(only, other) for other in others):
                raise only from only.__cause__
            case _:
                raise


def _alike(one: BaseException, other: BaseException) -> bool:
    return type(one) is type(other) and str(one) == str(other)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in `error`, taken out of all groups around them; itself if it is none."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error
