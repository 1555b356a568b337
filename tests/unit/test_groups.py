"""What comes out of task groups."""

import anyio
import pytest

from outlast.errors import BoxGone
from outlast.groups import task_group


async def fail(error: Exception) -> None:
    await anyio.lowlevel.checkpoint()
    raise error


async def all_fail(*errors: Exception) -> None:
    async with task_group() as tasks:
        for error in errors:
            tasks.start_soon(fail, error)


async def test_several_that_say_the_same_are_one() -> None:
    with pytest.raises(BoxGone):
        await all_fail(*(BoxGone(box="b", reason="it ended.") for _ in range(3)))


async def test_those_that_differ_stay_a_group() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await all_fail(ValueError("one"), ValueError("other"))
    assert len(raised.value.exceptions) == 2
